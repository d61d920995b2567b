"""What the image knows of the engine's model classes, put where the engine looks for it.

vLLM describes a model class in a second Python before it starts the model, about ten seconds of processor, and keeps
the description in its cache folder. The image brings all of them (`images/model_infos.py`); a pod's cache folder is
empty. The engine compares each entry's hash with its own module, so an entry of another engine is never believed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SHIPPED = Path("/opt/windlass/engine-models/modelinfos")


def place(environment: Mapping[str, str], shipped: Path = SHIPPED) -> int:
    """Copy what the engine's cache folder lacks; the number of files. A folder that cannot be written stays."""
    folder = _cache_root(environment) / "modelinfos"
    there = {path.name for path in folder.glob("*.json")}
    missing = [path for path in sorted(shipped.glob("*.json")) if path.name not in there]
    copied = 0
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _copy(path, folder)
            copied += 1
    return copied


def _copy(path: Path, folder: Path) -> None:
    # Renamed into place: another server of the same cache folder never reads half a file.
    beside = folder / f".{path.name}.part"
    shutil.copyfile(path, beside)
    beside.rename(folder / path.name)


def _cache_root(environment: Mapping[str, str]) -> Path:
    """The folder that the engine calls VLLM_CACHE_ROOT, by its own rule."""
    if root := environment.get("VLLM_CACHE_ROOT"):
        return Path(root).expanduser()
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vllm"
