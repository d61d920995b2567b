"""Which weight files the engine will read, and in which order. Pure, but for `find`, which looks into the directory.

A file that nobody reads would only take memory from one that somebody does: of `.bin` and `.safetensors` twins, and of
files that the index does not name, nothing is read ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass_sizing.files import documents

SUFFIXES = (".safetensors", ".bin", ".gguf")
"""The engine takes the first kind that is there."""
INDEX_OF = {
    ".safetensors": "model.safetensors.index.json",
    ".bin": "pytorch_model.bin.index.json",
}
NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.bin", "scaler.bin", "rng_state.bin")
OTHER_COPY = "consolidated"
"""Some authors ship the same weights a second time under this name."""


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file that will be read."""

    path: Path
    size: int


def choose(sizes: Mapping[str, int], indexes: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Names out of a directory's listing, in the engine's order; `indexes` are the names that each index file gives."""
    for suffix in SUFFIXES:
        there = [name for name in sizes if name.endswith(suffix) and name not in NOT_WEIGHTS and sizes[name]]
        if not there:
            continue
        index = INDEX_OF.get(suffix, "")
        indexed = set(indexes.get(index, ()))
        if not indexed.isdisjoint(there):
            return tuple(sorted((name for name in there if name in indexed), key=_by_number))
        first_copy = [name for name in there if not name.startswith(OTHER_COPY)]
        return tuple(sorted(first_copy or there, key=_by_number))
    return ()


def find(directory: Path) -> tuple[WeightFile, ...]:
    """The files of a model directory; none when it cannot be read, for that is told where the model is looked at."""
    try:
        sizes = {entry.name: entry.stat().st_size for entry in directory.iterdir() if entry.is_file()}
    except OSError:
        return ()
    indexes = {name: names for name in INDEX_OF.values() if name in sizes and (names := _named(directory / name))}
    return tuple(WeightFile(directory / name, sizes[name]) for name in choose(sizes, indexes))


def _by_number(name: str) -> list[tuple[int, str]]:
    """Digits count as numbers: shard 10 comes after shard 9, as the engine sorts them."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _named(index: Path) -> frozenset[str]:
    try:
        found = documents.parse(documents.read(index, documents.INDEX_BYTES_MAX))
        return frozenset(str(name) for name in found["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()
