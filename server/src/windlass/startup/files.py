"""Finds the weight files of a model's directory with their sizes, for whoever reads all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files.weight_files import wanted_files


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file that will be read."""

    path: Path
    size: int


def find(directory: Path, choose: Callable[[Path], list[str]] = wanted_files) -> tuple[WeightFile, ...]:
    """The files that are there; none when they cannot be told, for that is said where the model is looked at."""
    try:
        paths = [directory / name for name in choose(directory)]
        found = (WeightFile(path, path.stat().st_size) for path in paths if path.is_file())
        return tuple(file for file in found if file.size)
    except (CheckpointError, OSError):
        return ()
