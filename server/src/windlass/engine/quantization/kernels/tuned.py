"""Tilings and their rates, as cards were measured: read once from `tilings/`, which `rates.py` writes.

A file is for the card that its `device` names, as the driver does. A card without a file takes the H200's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from windlass.engine.quantization.kernels.tiling import Few, PackedStream, Stream

DEFAULT = "NVIDIA H200"
"""The card whose values serve those that nobody has measured."""


@dataclass(frozen=True, slots=True)
class Row:
    """Tiles for up to `rows_max` rows of x."""

    rows_max: int
    narrow: Few
    broad: Few
    blocks_per_processor: float
    """To which a narrow product is split along K."""
    broad_from: float
    """Blocks for each multiprocessor from which a product counts as broad."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A tiling that streams packed weights, and what it takes, in microseconds."""

    tiling: PackedStream
    column_us: float
    """1,000 columns of a tile."""
    part_us: float
    """Adding up what another block has of a tile."""
    tile_us: float
    """A tile's results to memory."""
    apart_us: float = 0.0
    """More for 1,000 columns where blocks are not at the same columns and x is larger than the L2 cache."""


PackedRange = tuple[int, tuple[Rate, ...]]
"""Rows of x at most, and the tilings to choose from."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was measured on one card."""

    device: str
    packed_streams: Mapping[int, tuple[PackedRange, ...]]
    """By the bits of a weight, rows ascending. Past the last range W is made float16 first."""
    fp8_streams: tuple[tuple[int, Stream, Stream], ...]
    """FP8 with FP8: rows of x at most, tiles where there are fewer of them than multiprocessors, and else."""
    few: Mapping[str, tuple[Row, ...]]
    """`packed`, `fp8` and `fp8_hopper`: products that mma.sync computes."""


def read(text: str) -> Tuned:
    """The tuned values of a file's text; KeyError or TypeError where a field is missing or unknown."""
    data: dict[str, Any] = json.loads(text)
    packed = {
        int(bits): tuple((one["rows_max"], tuple(map(_rate, one["rates"]))) for one in ranges)
        for bits, ranges in data["packed_streams"].items()
    }
    fp8 = ((one["rows_max"], Stream(**one["narrow"]), Stream(**one["broad"])) for one in data["fp8_streams"])
    few = {kind: tuple(map(_row, rows)) for kind, rows in data["few"].items()}
    return Tuned(data["device"], packed, tuple(fp8), few)


def _rate(one: dict[str, Any]) -> Rate:
    return Rate(**{**one, "tiling": PackedStream(**one["tiling"])})


def _row(one: dict[str, Any]) -> Row:
    return Row(**{**one, "narrow": Few(**one["narrow"]), "broad": Few(**one["broad"])})


def _all() -> Iterator[Tuned]:
    for file in (files("windlass.engine.quantization.kernels") / "tilings").iterdir():
        if file.name.endswith(".json"):
            yield read(file.read_text())


CARDS: Mapping[str, Tuned] = {tuned.device: tuned for tuned in _all()}
"""By the name of the card."""


def tuned_for(device: str) -> Tuned:
    """The values of a card, or the default's."""
    return CARDS.get(device, CARDS[DEFAULT])
