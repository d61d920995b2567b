"""The tile sizes that a sweep tries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from windlass.engine.quantization.kernels.tiling import FP8, Few, Kind, PackedStream, Stream, Tiling


def few(kind: Kind, *, ahead: bool) -> Iterator[Few]:
    """The tile sizes of the kernel for few rows that the sweep compiles, without the split."""
    for mt in (1, 2, 4) if kind not in (4, 8) else (1, 2, 4, 8):
        for nt, wn, wk, u in itertools.product((1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)):
            tiling = Few(mt, nt, wn, wk, u, ahead=ahead)
            words = 2 * u * nt * (5 if kind == 4 else 8)  # registers that hold weights, now and next
            registers = words + nt * mt * 4 + mt * 4 + 40
            fits = registers * tiling.threads <= 65536 and registers <= 250 and tiling.shared_bytes(kind) <= 200 * 1024
            if fits and 128 <= tiling.threads <= 512 and 2 <= u * nt <= 8 and (mt < 8 or wk < 4):
                yield tiling


def streams() -> Iterator[Stream]:
    """The tile sizes that stream FP8."""
    ways = ((1, 1), (2, 1), (1, 2), (2, 2))
    for bm, (r, wg), stages in itertools.product((16, 32, 64, 128), ways, (5, 6, 8, 10, 12)):
        tiling = Stream(bm, r, wg, stages)
        if tiling.shared_bytes(FP8) <= 227 * 1024 and r * bm <= 128 and stages * tiling.block[1] >= 512:
            yield tiling


def packed_streams(kind: Kind) -> Iterator[PackedStream]:
    """The tile sizes that stream packed weights, each with as many stages as fit."""
    ways = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 2))
    sizes = itertools.product((16, 32, 64, 128, 192, 256), ways, (1, 2, 4), (2, 4), (1, 2))
    for bm, (r, wg), kb, in_flight, pair in sizes:
        if (kb == 1) != (bm == 256) and not (kb == 1 and bm * r in {192, 256}):
            continue  # stages of one block where two would leave too few of them
        if pair == 2 and bm < 128:
            continue  # x is not what takes their time
        if bm >= 128 and (kb > 2 or r * bm > 256 or wg * bm > 512 or r * wg * bm < 256):
            continue  # too many registers, or stages too large
        if (r == 2 and bm != 128) or (wg == 1 and bm > 64):
            continue
        fitting = [
            PackedStream(bm, r, wg, stages, kb=kb, in_flight=in_flight, pair=pair)
            for stages in range(12, 2 if kb == 1 else 1, -1)
        ]
        most = next((tiling for tiling in fitting if tiling.shared_bytes(kind) <= 227 * 1024), None)
        if most:
            yield most


def sensible(tiling: Tiling | Stream, m: int) -> bool:
    """Whether a tile has about the rows of x that there are."""
    rows = tiling.block[0]
    if isinstance(tiling, Stream):
        return (m <= rows and (rows < 2 * m or rows == 16)) or (m > 64 and rows >= 128)
    return rows == 8 * min(8, 1 << max(0, math.ceil(math.log2(m / 8)))) and m <= 128


def splits(tiling: Tiling | Stream, rows: int, columns: int, m: int) -> list[int]:
    """Splits along K worth trying: from one wave of blocks to a few. Of a stream also 0, an even share."""
    if isinstance(tiling, Stream):
        tiles = tiling.tiles(m, rows)
        pair = tiling.pair if isinstance(tiling, PackedStream) else 1
        return [0, *(count for count in (1, 2, 3, 4) if tiles * count * pair <= 132)]
    blocks = -(-rows // tiling.block[1]) * -(-m // tiling.block[0])
    steps = -(-columns // tiling.step)
    wanted = {1, *(round(132 * waves / blocks) for waves in (1, 2, 3, 4))} if blocks < 400 else {1}
    return sorted({min(max(1, split), steps, 32) for split in wanted})
