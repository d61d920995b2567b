"""Which tiles, or whether at all: the choice of a launch from the shape of the product.

Packed weights are streamed on Hopper: for a range of rows of x there are up to three tilings, and what each would take
is reckoned with measured rates (`tuned.py`). Past the last range W is made float16 again for cuBLAS. On other cards,
and for FP8 with few rows, tables hold the winners: a broad product has tiles of W enough to fill the card, a narrow one
is split along K.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from windlass.engine.quantization.codebook import BLOCK
from windlass.engine.quantization.kernels.tiling import FP8, HOPPER, Few, Kind, PackedStream, Stream, Tiling
from windlass.engine.quantization.kernels.tuned import DEFAULT, PackedRange, Rate, Row, tuned_for

TOKEN_COLUMNS_MAX = 65536  # of x: 1,024 threads of the kernel that quantizes it hold 64 each
PER_TILE_MOST = 4  # blocks that share a tile and nothing else
APART_BYTES = 80e6  # of x, of which none is found in the L2 cache again: the H200's has 50 MB
MEMORY_BYTES_PER_US, BLOCK_BYTES_PER_US = 4.0e6, 6.0e4  # of W: what all blocks of a launch stream, and one; H200
SPLIT_US = 2.5  # to add up the parts of tiles; H200
TURING = 7  # the major capability: it has no cp.async, and dequantizes


@functools.lru_cache(maxsize=8192)
def choose(bits: int, shape: tuple[int, int, int], processors: int, major: int, device: str = DEFAULT) -> Tiling | None:
    """The tiles for x [m, columns] times packed W [rows, columns], the shape being (m, rows, columns).

    None where W is dequantized first. `device` is the card's name.
    """
    if major == HOPPER:
        return _quickest(tuned_for(device).packed_streams[bits], shape, processors)
    row = _row(table(bits, major, device), shape[0])
    return _tiled(row, shape, processors) if row else None


def fits_fp8(columns: int, rows: int) -> bool:
    """Whether a matrix of FP8 ends with whole tiles, and its rows of x fit into one block that quantizes them."""
    return columns % BLOCK == 0 and rows % 16 == 0 and columns <= TOKEN_COLUMNS_MAX


@functools.lru_cache(maxsize=8192)
def choose_fp8(shape: tuple[int, int, int], processors: int, major: int, device: str = DEFAULT) -> Few | None:
    """The same for W in FP8 and few rows of x as they are; None where there are more."""
    row = _row(table(FP8, major, device), shape[0])
    return _tiled(row, shape, processors) if row else None


@functools.lru_cache(maxsize=8192)
def choose_stream(shape: tuple[int, int, int], processors: int, major: int, device: str = DEFAULT) -> Stream | None:
    """The same for x and W both in FP8; None where the engine multiplies them."""
    m, rows, columns = shape
    found = next((tiles for tiles in tuned_for(device).fp8_streams if m <= tiles[0]), None)
    if major != HOPPER or not found or columns % Stream.step:
        return None
    _, narrow, broad = found
    tiles = -(-rows // narrow.block[1])
    if tiles > processors:
        return broad
    splits = range(1, min(processors // tiles, columns // narrow.step) + 1)
    return replace(narrow, per_tile=min(splits, key=lambda count: streamed_us(count, rows * columns, tiles)))


def _quickest(ranges: tuple[PackedRange, ...], shape: tuple[int, int, int], processors: int) -> PackedStream | None:
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


def table(kind: Kind, major: int, device: str = DEFAULT) -> tuple[Row, ...]:
    """The rows of a card whose products mma.sync computes."""
    few = tuned_for(device).few
    if kind == FP8:
        return few["fp8_hopper" if major == HOPPER else "fp8"]
    return () if major == TURING else few["packed"]


def _row(rows: tuple[Row, ...], m: int) -> Row | None:
    return next((row for row in rows if m <= row.rows_max), None)


def _tiled(row: Row, shape: tuple[int, int, int], processors: int) -> Few:
    m, rows, columns = shape
    if _blocks(row.broad, m, rows) >= row.broad_from * processors:
        return row.broad
    wanted = int(row.blocks_per_processor * processors / _blocks(row.narrow, m, rows))
    return replace(row.narrow, splits=min(max(1, wanted), -(-columns // row.narrow.step)))


def _blocks(tiling: Few, m: int, rows: int) -> int:
    height, width = tiling.block
    return -(-m // height) * -(-rows // width)
