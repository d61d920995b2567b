"""Weight files of a model's directory with their sizes, for callers that read all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files.weight_files import listed, wanted_files


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file that will be read."""

    path: Path
    size: int


def find(directory: Path, choose: Callable[[Path], list[str]] = wanted_files) -> tuple[WeightFile, ...]:
    """Find the files that are there and hold something; none where their index is broken: `missing` has the words."""
    try:
        paths = [directory / name for name in choose(directory)]
        found = (WeightFile(path, path.stat().st_size) for path in paths if path.is_file())
        return tuple(file for file in found if file.size)
    except (CheckpointError, OSError):
        return ()


def missing(directory: Path, choose: Callable[[Path], list[str]] = wanted_files) -> str:
    """Say why `find` has nothing, as the end of a sentence about the directory."""
    try:
        names = choose(directory)
    except CheckpointError as error:
        if error.reason != "WeightsMissing":
            return f"has weights that cannot be read: {error}"
        names = []
    except OSError as error:
        return f"cannot be read: {error.strerror}; check the volume"
    if names:
        return f"has weight files that are empty or missing: {listed(names)}; copy them again"
    return "has no weights (*.safetensors, *.bin, *.pt) beside config.json; copy them there"
