"""Which tiles, or whether at all: the choice of a launch from the shape of the product, as measured on an H100.

The rows of the tables are the winners of `benchmarks/quantization/kernels.py --sweep`. A broad product has tiles of W
enough to fill the card; a narrow one is split along K until there are `fill` blocks for each multiprocessor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.quantization.kernels.tiling import Few, Tiling, Wide

BROAD = 0.7  # blocks for each multiprocessor from which a product counts as broad


@dataclass(frozen=True, slots=True)
class Row:
    """Tiles for up to `m` rows of x."""

    m: int
    narrow: Tiling
    broad: Tiling
    fill: float = 2.0


_MMA = (
    Row(8, Few(1, 1, 8, 1, 2), Few(1, 4, 2, 2, 2)),
    Row(16, Few(2, 1, 8, 1, 2), Few(2, 2, 4, 1, 4)),
    Row(32, Few(4, 1, 8, 1, 2), Few(4, 2, 4, 1, 2)),
    Row(64, Few(8, 1, 8, 1, 2), Few(8, 2, 4, 1, 1)),
)
_HOPPER_NF4 = (
    *_MMA[:2],
    Row(32, Wide(32, 1, 2, stages=6), Wide(32, 2, 1, in_flight=2)),
    Row(64, Wide(64, 1, 2, in_flight=2), Wide(64, 2, 3, in_flight=2)),
    Row(128, Wide(64, 1, 2, stages=6, in_flight=2), Wide(128, 2, 3)),
    Row(256, Wide(96, 1, 2, in_flight=2), Wide(256, 1, 3)),
    Row(768, Wide(256, 1, 2, in_flight=2), Wide(256, 1, 3), fill=1.0),
)
_HOPPER_INT8 = (
    Row(8, Few(1, 1, 2, 4, 2), Few(1, 1, 4, 2, 2), fill=1.2),
    Row(16, Wide(16, 1, 1, stages=6, in_flight=2), Wide(16, 1, 1, stages=6, in_flight=2), fill=2.2),
    Row(32, Wide(32, 1, 1, stages=6), Wide(32, 1, 1), fill=2.2),
    Row(64, Wide(64, 1, 1, stages=6), Wide(64, 2, 1), fill=2.2),
    Row(128, Wide(64, 1, 1), Wide(128, 2, 3, in_flight=2), fill=3.4),
    Row(256, Wide(96, 1, 2), Wide(256, 1, 2, in_flight=2)),
    Row(1536, Wide(128, 1, 2), Wide(256, 1, 2, in_flight=2)),
)
# by the bits of a weight and the major capability; Turing has no cp.async, and dequantizes
TABLES = {(4, 7): (), (8, 7): (), (4, 9): _HOPPER_NF4, (8, 9): _HOPPER_INT8}


def choose(bits: int, shape: tuple[int, int, int], processors: int, major: int) -> Tiling | None:
    """The tiles for x [m, columns] times W [rows, columns], the shape being (m, rows, columns).

    None where W is dequantized first: one pass over it costs less than a product below the speed of float16.
    """
    m, rows, columns = shape
    row = next((row for row in TABLES.get((bits, major), _MMA) if m <= row.m), None)
    if row is None:
        return None
    if _blocks(row.broad, m, rows) >= BROAD * processors:
        return row.broad
    wanted = int(row.fill * processors / _blocks(row.narrow, m, rows))
    return replace(row.narrow, splits=min(max(1, wanted), -(-columns // row.narrow.step)))


def _blocks(tiling: Tiling, m: int, rows: int) -> int:
    height, width = tiling.block
    return -(-m // height) * -(-rows // width)
