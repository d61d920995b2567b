"""Which tiles, or whether at all: the choice of a launch from the shape of the product, as measured on H100s and H200s.

Packed weights are streamed on Hopper: for a range of rows of x there are up to three tilings, and what each would take
is reckoned with rates that `benchmarks/quantization/rates.py` fits to a sweep of `kernels.py`. Past the last range W is
made float16 again for cuBLAS. On other cards, and for FP8 with few rows, tables hold the winners: a broad product has
tiles of W enough to fill the card, a narrow one is split along K until there are `fill` blocks for each multiprocessor.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from windlass.quantization.codebook import BLOCK
from windlass.quantization.kernels.tiling import FP8, HOPPER, Few, Kind, PackedStream, Stream, Tiling

TOKEN_COLUMNS_MAX = 65536  # of x: 1,024 threads of the kernel that quantizes it hold 64 each
BROAD = 0.7  # blocks for each multiprocessor from which a product counts as broad


@dataclass(frozen=True, slots=True)
class Row:
    """Tiles for up to `m` rows of x."""

    m: int
    narrow: Few
    broad: Few
    fill: float = 2.0
    broad_from: float = BROAD


_MMA = (
    Row(8, Few(1, 1, 8, 1, 2), Few(1, 4, 2, 2, 2)),
    Row(16, Few(2, 1, 8, 1, 2), Few(2, 2, 4, 1, 4)),
    Row(32, Few(4, 1, 8, 1, 2), Few(4, 2, 4, 1, 2)),
    Row(64, Few(8, 1, 8, 1, 2), Few(8, 2, 4, 1, 1)),
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
class Rate:
    """A tiling that streams packed weights, and what it takes: microseconds of an H200."""

    tiling: PackedStream
    column_us: float
    """1,000 columns of a tile."""
    part_us: float
    """Adding up what another block has of a tile."""
    tile_us: float
    """A tile's results to memory."""
    apart_us: float = 0.0
    """More for 1,000 columns where blocks are not at the same columns and x is larger than the L2 cache."""


PACKED_STREAMS: dict[Kind, tuple[tuple[int, tuple[Rate, ...]], ...]] = {
    4: (
        (16, (
            Rate(PackedStream(16, 1, 2, 7, kb=4), 3.4, 1.0, 2.9),
            Rate(PackedStream(16, 1, 3, 5, kb=4), 3.7, 0.7, 3.8),
        )),
        (32, (
            Rate(PackedStream(32, 1, 2, 10), 3.9, 1.1, 2.7),
            Rate(PackedStream(32, 1, 3, 4, kb=4), 4.2, 0.75, 4.3),
        )),
        (64, (
            Rate(PackedStream(64, 1, 2, 3, kb=4), 4.1, 1.0, 4.4),
            Rate(PackedStream(64, 1, 3, 5, in_flight=4), 5.4, 0.9, 5.4),
        )),
        (128, (
            Rate(PackedStream(128, 1, 2, 4, in_flight=4), 5.4, 1.7, 5.1),
            Rate(PackedStream(128, 1, 3, 3), 7.2, 1.5, 7.7),
        )),
        (640, (
            Rate(PackedStream(128, 1, 2, 4, in_flight=4), 5.9, 2.9, 3.3, 4.6),
            Rate(PackedStream(192, 1, 2, 3, pair=2), 6.8, 3.1, 5.6, 5.3),
            Rate(PackedStream(256, 1, 2, 4, kb=1, pair=2), 9.0, 2.3, 7.6, 8.6),
        )),
        (3072, (
            Rate(PackedStream(192, 1, 2, 3, in_flight=4, pair=2), 8.3, 5.0, 0.9, 1.8),
            Rate(PackedStream(256, 1, 2, 4, kb=1, in_flight=4), 10.9, 6.7, 0.9, 3.9),
        )),
    ),
    8: (
        (16, (
            Rate(PackedStream(16, 1, 2, 5, kb=4), 2.8, 1.4, 2.5),
            Rate(PackedStream(16, 1, 3, 3, kb=4), 3.6, 1.3, 3.1),
        )),
        (32, (
            Rate(PackedStream(32, 1, 2, 4, kb=4), 3.0, 1.4, 2.9),
            Rate(PackedStream(32, 1, 3, 6), 4.2, 1.1, 3.2),
        )),
        (64, (
            Rate(PackedStream(64, 1, 2, 3, kb=4, in_flight=4), 3.5, 1.5, 3.7),
            Rate(PackedStream(64, 1, 4, 4, in_flight=4), 5.2, 1.1, 5.8),
        )),
        (128, (
            Rate(PackedStream(128, 1, 2, 4, in_flight=4, pair=2), 4.9, 1.9, 4.8),
            Rate(PackedStream(128, 2, 2, 3, pair=2), 8.7, 1.8, 7.8),
        )),
        (640, (
            Rate(PackedStream(128, 1, 2, 4, in_flight=4, pair=2), 5.3, 2.8, 3.2, 8.0),
            Rate(PackedStream(192, 1, 2, 3, in_flight=4, pair=2), 7.0, 3.5, 5.0, 6.4),
            Rate(PackedStream(256, 1, 2, 5, kb=1, pair=2), 9.0, 2.2, 7.6, 13.3),
        )),
        (3072, (
            Rate(PackedStream(192, 1, 2, 3, pair=2), 7.9, 6.2, 0.9, 2.2),
            Rate(PackedStream(256, 1, 2, 5, kb=1, in_flight=4, pair=2), 10.1, 7.0, 2.4, 2.3),
        )),
        (8192, (Rate(PackedStream(128, 2, 2, 3, in_flight=4, pair=2), 12.0, 0.0, 0.7, 1.3),)),
    ),
}  # fmt: skip
"""By the bits, on Hopper: rows of x at most, and what they are multiplied by. Past the last W is made float16 first.
The rates are of a sweep in which sums of few rows were not written first yet (ADR 29): parts take somewhat less now."""
PER_TILE_MOST = 4  # blocks that share a tile and nothing else
APART_BYTES = 80e6  # of x, of which none is found in the L2 cache again
MEMORY_BYTES_PER_US, BLOCK_BYTES_PER_US = 4.0e6, 6.0e4  # that all blocks of a launch stream of W, and one
SPLIT_US = 2.5  # to add up the parts of tiles
# by weights and the major capability; Turing has no cp.async, and dequantizes
TABLES: dict[tuple[Kind, int], tuple[Row, ...]] = {(4, 7): (), (8, 7): (), (FP8, 9): _HOPPER_FP8}
OTHERS: dict[Kind, tuple[Row, ...]] = {4: _MMA, 8: _MMA, FP8: _FP8}
"""Of a capability that has no table."""


@functools.lru_cache(maxsize=8192)
def choose(bits: int, shape: tuple[int, int, int], processors: int, major: int) -> Tiling | None:
    """The tiles for x [m, columns] times packed W [rows, columns], the shape being (m, rows, columns).

    None where W is dequantized first.
    """
    if major == HOPPER:
        return _quickest(PACKED_STREAMS[bits], shape, processors)
    row = _row(bits, shape[0], major)
    return _tiled(row, shape, processors) if row else None


def fits_fp8(columns: int, rows: int) -> bool:
    """Whether a matrix of FP8 ends with whole tiles, and its rows of x fit into one block that quantizes them."""
    return columns % BLOCK == 0 and rows % 16 == 0 and columns <= TOKEN_COLUMNS_MAX


@functools.lru_cache(maxsize=8192)
def choose_fp8(shape: tuple[int, int, int], processors: int, major: int) -> Few | None:
    """The same for W in FP8 and few rows of x as they are; None where there are more."""
    row = _row(FP8, shape[0], major)
    return _tiled(row, shape, processors) if row else None


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


def _quickest(
    ranges: tuple[tuple[int, tuple[Rate, ...]], ...], shape: tuple[int, int, int], processors: int
) -> PackedStream | None:
    """Of the tilings for so many rows, each shared in every way."""
    m, rows, columns = shape
    ways = [
        (packed_us(rate, per_tile, shape, processors), replace(tiling, per_tile=per_tile))
        for rate in next((rates for most, rates in ranges if m <= most), ())
        for tiling in [fitting(rate.tiling, columns)]
        for per_tile in range(PER_TILE_MOST + 1)
        if per_tile * tiling.tiles(m, rows) <= processors // tiling.pair and per_tile <= columns // tiling.step
    ]
    return min(ways, key=lambda way: way[0])[1] if ways else None


def fitting(tiling: PackedStream, columns: int) -> PackedStream:
    """Stages of one block of 64 columns where larger ones do not end with the matrix."""
    if columns % tiling.step == 0:
        return tiling
    return replace(tiling, kb=1, stages=min(12, tiling.kb * tiling.stages))


def packed_us(rate: Rate, per_tile: int, shape: tuple[int, int, int], processors: int) -> float:
    """Microseconds of a product with packed weights, of tiles that are a block's own and of shared ones."""
    m, rows, columns = shape
    shares, tiles = processors // rate.tiling.pair, rate.tiling.tiles(m, rows)
    columns_us = columns / 1000 * rate.column_us
    if per_tile:
        return columns_us / per_tile + (per_tile - 1) * rate.part_us + rate.tile_us
    each = tiles / shares
    if tiles % shares == 0:
        return each * (columns_us + rate.tile_us)
    shared = each - max(0, tiles // shares - 1)
    apart_us = columns / 1000 * rate.apart_us * min(1.0, 2 * m * columns / APART_BYTES)
    return (
        each * columns_us + shared * apart_us + max(1.0, 1 / each) * rate.part_us + -(-tiles // shares) * rate.tile_us
    )


def streamed_us(splits: int, weight_bytes: int, tiles: int) -> float:
    """Microseconds in which `splits` blocks for each tile read a matrix and add up."""
    reading = max(weight_bytes / MEMORY_BYTES_PER_US, weight_bytes / (tiles * splits) / BLOCK_BYTES_PER_US)
    return reading + (SPLIT_US if splits > 1 else 0)


def _row(kind: Kind, m: int, major: int) -> Row | None:
    return next((row for row in TABLES.get((kind, major), OTHERS[kind]) if m <= row.m), None)


def _tiled(row: Row, shape: tuple[int, int, int], processors: int) -> Few:
    m, rows, columns = shape
    if _blocks(row.broad, m, rows) >= row.broad_from * processors:
        return row.broad
    wanted = int(row.fill * processors / _blocks(row.narrow, m, rows))
    return replace(row.narrow, splits=min(max(1, wanted), -(-columns // row.narrow.step)))


def _blocks(tiling: Few, m: int, rows: int) -> int:
    height, width = tiling.block
    return -(-m // height) * -(-rows // width)
