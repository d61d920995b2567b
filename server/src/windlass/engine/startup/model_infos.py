"""What the image knows of the engine's model classes, put where the engine looks for it.

vLLM describes a model class in a second Python before it starts the model, about ten seconds of processor, and keeps
the description in its cache folder. The image brings all of them (`images/model_infos.py`); a pod's cache folder is
empty. The engine compares each entry's hash with its own module, so an entry of another engine is never believed.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SHIPPED = Path("/opt/windlass/engine-models/modelinfos")


def place(environment: Mapping[str, str], shipped: Path = SHIPPED) -> int:
    """Copy what the engine's cache folder lacks; the number of files. What cannot be written is left out."""
    folder = _cache_root(environment) / "modelinfos"
    there = {path.name for path in folder.glob("*.json")}
    missing = [path for path in sorted(shipped.glob("*.json")) if path.name not in there]
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return sum(_copied(path, folder) for path in missing)


def _copied(path: Path, folder: Path) -> bool:
    """Whether the file was copied; the next one is tried either way.

    It is renamed into place, so another server of the same cache folder never reads half a file. Servers in two pods
    may have the same process id, so the host's name, which is the pod's, is in the name too.
    """
    beside = folder / f".{path.name}.{socket.gethostname()}.{os.getpid()}.part"
    try:
        shutil.copyfile(path, beside)
        beside.rename(folder / path.name)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        return False
    return True


def _cache_root(environment: Mapping[str, str]) -> Path:
    """The folder that the engine calls VLLM_CACHE_ROOT, by its own rule."""
    if root := environment.get("VLLM_CACHE_ROOT"):
        return Path(root).expanduser()
    return Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vllm"
