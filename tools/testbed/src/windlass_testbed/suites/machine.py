"""A suite's input and stamps on this machine: files by git, digests of Python and of the engine's image."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from windlass_testbed import images
from windlass_testbed.paths import Paths
from windlass_testbed.suites.stamps import Input, Record, Stamp, files_of
from windlass_testbed.suites.table import Suite

VARIABLES = re.compile(r"WINDLASS_.*|OPENBLAS_CORETYPE|PYTEST_ADDOPTS")
"""Variables that change what a suite does."""
PLACES = {"WINDLASS_CACHE", "WINDLASS_KEEP", "WINDLASS_KUBE_BIN"}
"""… and those that change only where: the versions of tools are pinned in the testbed, an input of every suite."""
ENGINE_IMAGE = "engine-cpu"
KEPT = 20
"""Stamps of a suite that are kept: of the branches that somebody goes back to."""


def digests(root: Path) -> dict[str, str]:
    """Return a digest of each file as it lies on the disk, tracked or not; ignored and deleted files have none.

    It covers the executable bit, a link's target and content, and whether git tracks the file.
    """
    tracked = set(_git(root, "ls-files", "-z"))
    untracked = set(_git(root, "ls-files", "-z", "--others", "--exclude-standard"))
    found = {name: _digest(root / name) for name in sorted(tracked | untracked)}
    return {name: f"{name in tracked:d} {digest}" for name, digest in found.items() if digest}


def _git(root: Path, *words: str) -> list[str]:
    out = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout
    return [name for name in out.split("\0") if name]


def _digest(file: Path) -> str:
    link = f"link {file.readlink()} " if file.is_symlink() else ""
    if not file.is_file():
        return link
    return f"{link}{file.stat().st_mode & 0o111:o} {hashlib.sha256(file.read_bytes()).hexdigest()}"


def surroundings(paths: Paths, suite: Suite, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return digests of what is no file of the repository: empty for one that is not known."""
    found = {
        "command": " ".join([*command, *suite.tests]),
        "Python": f"{sys.version} {hashlib.sha256(Path(sys.executable).read_bytes()).hexdigest()}",
        "processor": _processor(),
        **{name: text for name, text in environment.items() if VARIABLES.fullmatch(name) and name not in PLACES},
    }
    return found | ({"the engine's image": _image_digest(paths)} if suite.runs_engine else {})


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return platform.machine() + "".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def _image_digest(paths: Paths) -> str:
    """Return the image's digest by the engine's own list, which needs no running engine; empty where it is not built.

    The images above it are built from files that are inputs themselves.
    """
    names = paths.cache / "docker/image/overlay2/repositories.json"
    tag = images.tag(images.IMAGE[ENGINE_IMAGE])
    if not names.exists():
        return ""
    by_repository = json.loads(names.read_text(encoding="utf-8"))["Repositories"]
    return str(by_repository.get(tag.partition(":")[0], {}).get(tag, ""))


def read_input(root: Path, paths: Paths, suite: Suite, command: Sequence[str], environment: Mapping[str, str]) -> Input:
    """Return the suite's input as it is now."""
    return Input(files_of(suite, digests(root)), surroundings(paths, suite, command, environment))


def read_record(file: Path) -> Record | None:
    """Return what the recorder wrote; None where it wrote nothing, or half."""
    try:
        return Record(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def read_stamps(paths: Paths, suite: Suite) -> list[Stamp]:
    """Return the suite's stamps, the oldest first; a file that is none is left out."""
    found = []
    for file in _folder(paths, suite).glob("*.json"):
        try:
            found.append(Stamp(**json.loads(file.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue
    return sorted(found, key=lambda stamp: stamp.passed_at)


def write_stamp(paths: Paths, suite: Suite, stamp: Stamp) -> None:
    """Write a stamp whole, by a rename, and take the oldest ones away."""
    folder = _folder(paths, suite)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False, encoding="utf-8") as part:
        part.write(stamp.text())
        part.flush()
        os.fsync(part.fileno())
    Path(part.name).replace(folder / f"{stamp.key}.json")
    for old in read_stamps(paths, suite)[:-KEPT]:
        (folder / f"{old.key}.json").unlink(missing_ok=True)


def now() -> float:
    """Return the time of day, for a stamp."""
    return time.time()


def _folder(paths: Paths, suite: Suite) -> Path:
    return paths.cache / "passed" / suite.name
