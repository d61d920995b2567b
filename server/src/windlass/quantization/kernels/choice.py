"""Which tiles, or whether at all: the choice of a launch from the shape of the product, as measured on H100s and H200s.

Up to 256 rows of x the tables hold the winners of `benchmarks/quantization/kernels.py --sweep`: on Hopper first what
streams the weights. Of the other kernels, a broad product has
tiles of W enough to fill the card; a narrow one is split along K until there are `fill` blocks for each multiprocessor.

From there on whole waves of blocks decide, and they can be reckoned: `MANY` holds what a block of a tiling takes, and
what is compared with it is one pass that makes W float16 again and cuBLAS behind it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from windlass.quantization.codebook import BLOCK
from windlass.quantization.kernels.tiling import FP8, HOPPER, Few, Kind, PackedStream, Stream, Tiling, Wide

TOKEN_COLUMNS_MAX = 65536  # of x: 1,024 threads of the kernel that quantizes it hold 64 each
BROAD = 0.7  # blocks for each multiprocessor from which a product counts as broad


@dataclass(frozen=True, slots=True)
class Row:
    """Tiles for up to `m` rows of x."""

    m: int
    narrow: Few | Wide
    broad: Few | Wide
    fill: float = 2.0
    broad_from: float = BROAD


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
)
_HOPPER_INT8 = (
    Row(8, Few(1, 1, 2, 4, 2), Few(1, 1, 4, 2, 2), fill=1.2),
    Row(16, Wide(16, 1, 1, stages=6, in_flight=2), Wide(16, 1, 1, stages=6, in_flight=2), fill=2.2),
    Row(32, Wide(32, 1, 1, stages=6), Wide(32, 1, 1), fill=2.2),
    Row(64, Wide(64, 1, 1, stages=6), Wide(64, 2, 1), fill=2.2),
    Row(128, Wide(64, 1, 1), Wide(128, 2, 3, in_flight=2), fill=3.4),
    Row(256, Wide(96, 1, 2), Wide(256, 1, 2, in_flight=2)),
)
# As measured on an H200: Qwen2-7B's layers in 2.4 ms with one row, in 3.2 with eight. Where STREAMS go, 2.2 and 2.4
_FP8 = (Row(8, Few(1, 1, 1, 8, 2), Few(1, 1, 2, 2, 4), fill=1.2, broad_from=2.0),)
_HOPPER_FP8 = (Row(8, Few(1, 1, 1, 8, 2, ahead=True), Few(1, 1, 2, 2, 4, ahead=True), fill=1.2, broad_from=2.0),)
STREAMS = (
    (16, Stream(16, 1, 1, stages=10), Stream(16, 1, 2, stages=8)),
    (32, Stream(32, 1, 1, stages=8), Stream(32, 1, 2, stages=8)),
    (64, Stream(64, 1, 1, stages=8), Stream(64, 1, 1, stages=10)),
)
"""FP8 with FP8 on Hopper: rows of x at most, tiles where there are fewer of them than multiprocessors, and else."""


@dataclass(frozen=True, slots=True)
class Range:
    """Tiles that stream packed weights to up to `most` rows of x; None: the other kernels are as quick."""

    most: int
    narrow: PackedStream
    broad: PackedStream | None


_FOR_16 = PackedStream(16, 1, 3, 5, kb=4, in_flight=4)
PACKED_STREAMS = {
    4: (
        Range(16, _FOR_16, _FOR_16),
        Range(32, PackedStream(32, 1, 2, 5, kb=4, in_flight=4), PackedStream(32, 1, 3, 4, kb=4, in_flight=2)),
        Range(64, PackedStream(64, 1, 2, 3, kb=4, in_flight=4), PackedStream(64, 1, 3, 5, in_flight=4)),
        Range(256, PackedStream(128, 1, 2, 4), PackedStream(128, 1, 3, 3)),
    ),
    8: (
        Range(16, PackedStream(16, 1, 2, 5, kb=4), PackedStream(16, 1, 3, 7)),
        Range(32, PackedStream(32, 1, 2, 4, kb=4), PackedStream(32, 1, 3, 3, kb=4)),
        Range(64, PackedStream(64, 1, 2, 3, kb=4), PackedStream(64, 1, 3, 5)),
        Range(128, PackedStream(128, 1, 2, 4), PackedStream(128, 1, 3, 3)),
        Range(256, PackedStream(128, 1, 2, 4), PackedStream(128, 2, 2, 3)),
        Range(512, PackedStream(128, 2, 2, 3), None),
    ),
}
"""By the bits, on Hopper; as measured on an H200, all but 16 and 64 rows before stages came as boxes."""
FILLED = 0.75  # of the multiprocessors, from which whole blocks for each tile are better than an even share
MEMORY_BYTES_PER_US, BLOCK_BYTES_PER_US = 4.0e6, 6.0e4  # that all blocks of a launch stream of W, and one
SPLIT_US = 2.5  # to add up the parts of tiles
# by weights and the major capability; Turing has no cp.async, and dequantizes
TABLES: dict[tuple[Kind, int], tuple[Row, ...]] = {
    (4, 7): (), (8, 7): (), (4, 9): _HOPPER_NF4, (8, 9): _HOPPER_INT8, (FP8, 9): _HOPPER_FP8,
}  # fmt: skip
OTHERS: dict[Kind, tuple[Row, ...]] = {4: _MMA, 8: _MMA, FP8: _FP8}
"""Of a capability that has no table."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a tiling takes with many rows of x: `column_us` for each column of W and wave, `split_us` to add halves."""

    tiling: Wide
    column_us: float
    resident: int = 1  # blocks of a multiprocessor
    split_us: float | None = None  # None: was not measured, and is not done


MANY = {
    (4, 9): (Rate(Wide(256, 1, 3), 0.0200), Rate(Wide(256, 1, 2, in_flight=2), 0.0138, split_us=21)),
    (8, 9): (Rate(Wide(256, 1, 2, in_flight=2), 0.0117), Rate(Wide(128, 1, 2), 0.0131, resident=2, split_us=13)),
}
PASS_BYTES_PER_US = 2.8e6  # of the pass: packed weights read, float16 written
MULTIPROCESSOR_FLOP_PER_US = 5.4e6  # of cuBLAS, float16
FUSED_ROWS = {4: 1024, 8: 2048}  # by the bits; past them nothing is gained, or every wave would read x from memory


@functools.lru_cache(maxsize=8192)
def choose(bits: int, shape: tuple[int, int, int], processors: int, major: int) -> Tiling | None:
    """The tiles for x [m, columns] times packed W [rows, columns], the shape being (m, rows, columns).

    None where W is dequantized first.
    """
    if major == HOPPER and (stream := _packed_stream(bits, shape, processors)):
        return stream
    row = _row(bits, shape[0], major)
    return _tiled(row, shape, processors) if row else _quickest(bits, shape, processors, major)


def fits_fp8(columns: int, rows: int) -> bool:
    """Whether a matrix of FP8 ends with whole tiles, and its rows of x fit into one block that quantizes them."""
    return columns % BLOCK == 0 and rows % 16 == 0 and columns <= TOKEN_COLUMNS_MAX


@functools.lru_cache(maxsize=8192)
def choose_fp8(shape: tuple[int, int, int], processors: int, major: int) -> Few | None:
    """The same for W in FP8 and few rows of x as they are; None where there are more."""
    row = _row(FP8, shape[0], major)
    found = _tiled(row, shape, processors) if row else None
    return found if isinstance(found, Few) else None


@functools.lru_cache(maxsize=8192)
def choose_stream(shape: tuple[int, int, int], processors: int, major: int) -> Stream | None:
    """The same for x and W both in FP8; None where the engine multiplies them."""
    m, rows, columns = shape
    found = next((tiles for tiles in STREAMS if m <= tiles[0]), None)
    if major != HOPPER or not found or columns % Stream.step:
        return None
    _, narrow, broad = found
    tiles = -(-rows // narrow.block[1])
    if tiles > processors:
        return broad
    splits = range(1, min(processors // tiles, columns // narrow.step) + 1)
    return replace(narrow, per_tile=min(splits, key=lambda count: streamed_us(count, rows * columns, tiles)))


def _packed_stream(bits: int, shape: tuple[int, int, int], processors: int) -> PackedStream | None:
    m, rows, columns = shape
    found = next((range_ for range_ in PACKED_STREAMS[bits] if m <= range_.most), None)
    if not found:
        return None
    tiles = found.narrow.tiles(m, rows)
    tiling = found.narrow if tiles <= processors else found.broad
    if not tiling or columns % tiling.step:
        return None
    per_tile = min(processors // tiles, columns // tiling.step)
    return replace(tiling, per_tile=per_tile) if per_tile * tiles >= FILLED * processors else tiling


def streamed_us(splits: int, weight_bytes: int, tiles: int) -> float:
    """Microseconds in which `splits` blocks for each tile read a matrix and add up."""
    reading = max(weight_bytes / MEMORY_BYTES_PER_US, weight_bytes / (tiles * splits) / BLOCK_BYTES_PER_US)
    return reading + (SPLIT_US if splits > 1 else 0)


def _row(kind: Kind, m: int, major: int) -> Row | None:
    return next((row for row in TABLES.get((kind, major), OTHERS[kind]) if m <= row.m), None)


def _tiled(row: Row, shape: tuple[int, int, int], processors: int) -> Few | Wide:
    m, rows, columns = shape
    if _blocks(row.broad, m, rows) >= row.broad_from * processors:
        return row.broad
    wanted = int(row.fill * processors / _blocks(row.narrow, m, rows))
    return replace(row.narrow, splits=min(max(1, wanted), -(-columns // row.narrow.step)))


def _quickest(bits: int, shape: tuple[int, int, int], processors: int, major: int) -> Wide | None:
    rates = MANY.get((bits, major), ()) if shape[0] <= FUSED_ROWS[bits] else ()
    fused = [
        (fused_us(rate, splits, shape, processors), replace(rate.tiling, splits=splits))
        for rate in rates
        for splits in _splits(rate, shape, processors)
    ]
    us, tiling = min(fused, key=lambda found: found[0], default=(math.inf, None))
    return tiling if us <= dequantized_us(bits, shape, processors) else None


def _splits(rate: Rate, shape: tuple[int, int, int], processors: int) -> tuple[int, ...]:
    """Two where both halves of K fit into one wave, which is then no longer half empty."""
    m, rows, columns = shape
    fits = 2 * _blocks(rate.tiling, m, rows) <= processors * rate.resident and columns >= 2 * rate.tiling.step
    return (1, 2) if fits and rate.split_us is not None else (1,)


def fused_us(rate: Rate, splits: int, shape: tuple[int, int, int], processors: int) -> float:
    """Microseconds of the fused product: every wave of blocks takes as long as a full one."""
    m, rows, columns = shape
    waves = -(-_blocks(rate.tiling, m, rows) * splits // (processors * rate.resident))
    return waves * rate.column_us * columns / splits + ((rate.split_us or 0) if splits > 1 else 0)


def dequantized_us(bits: int, shape: tuple[int, int, int], processors: int) -> float:
    """Microseconds of the pass over W and of the float16 product behind it."""
    m, rows, columns = shape
    scale_bytes = 2 / BLOCK if bits == 4 else 0
    read_and_written = rows * columns * (bits / 8 + scale_bytes + 2)
    return read_and_written / PASS_BYTES_PER_US + 2 * m * rows * columns / processors / MULTIPROCESSOR_FLOP_PER_US


def _blocks(tiling: Few | Wide, m: int, rows: int) -> int:
    height, width = tiling.block
    return -(-m // height) * -(-rows // width)
