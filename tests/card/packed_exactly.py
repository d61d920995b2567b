"""On a GPU of Hopper: the kernel that streams packed weights against float64, on both sides of every border.

    PYTHONPATH=server/src python tests/card/packed_exactly.py

Rows of x up to a tile's and beyond, matrices that end within a tile, one block for a tile, several, an even share of
all, and of what is left when each block has had tiles of its own; with a bias and without; twice, for the same bits,
and in a graph. Then what is in front of a product, and a matrix of rows and columns that are padded, by whatever kernel
is chosen. Exits 1 with what differs.
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks/quantization"))

from fronts import different
from timing import error
from weights import quantized
from windlass.engine.quantization import product
from windlass.engine.quantization.kernels import gemm
from windlass.engine.quantization.kernels.choice import fitting
from windlass.engine.quantization.kernels.tiling import PackedStream
from windlass.engine.quantization.kernels.tuned import tuned_for
from windlass.engine.quantization.layout import pack, unpack

SHAPES = (
    (4608, 3584),
    (3584, 18944),
    (272, 4864),
    (48, 512),
    (1040, 1024),
    (528, 832),
)  # rows, columns; whole tiles of 16
BROAD = ((37888, 256), (37888, 320))  # tiles enough that blocks have some of their own
FRONTS = (256, 3584, 18944)  # columns
M = (1, 10, 64, 220, 600)
WORST = 1e-3  # rounding of the output, relative in the Frobenius norm


def tilings(bits: int) -> set[PackedStream]:
    """All that are chosen, and as they are where the columns ask for smaller stages."""
    chosen = {rate.tiling for _, rates in tuned_for(gemm.card(0)[2]).packed_streams[bits] for rate in rates}
    return chosen | {fitting(tiling, tiling.step + 64) for tiling in chosen}


def rows_of(tiling: PackedStream) -> Iterator[int]:
    """Of x: one, a border within, a tile's, two tiles' and some."""
    yield from {1, 3, tiling.bm // 2 + 1, tiling.bm, 2 * tiling.bm + 5}


def are_shared(tiling: PackedStream, m: int, shape: tuple[int, int], per_tile: int) -> bool:
    """Whether it is a way to share such a product; of a broad one, such that blocks have two tiles of their own."""
    rows, columns = shape
    processors = gemm.card(0)[0]
    if shape in BROAD:
        blocks = tiling.blocks(m, rows, columns, processors)
        return not per_tile and tiling.whole(m, rows, blocks) >= 2 * blocks // tiling.pair
    return per_tile * tiling.tiles(m, rows) <= processors // tiling.pair


def in_graph(x: torch.Tensor, packed: tuple[torch.Tensor, ...], bits: int, tiling: PackedStream) -> torch.Tensor:
    """The same, replayed twice: what a launch leaves behind is what the next one needs."""
    gemm.fused(x, *packed, None, bits, tiling)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = gemm.fused(x, *packed, None, bits, tiling)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    return out


def wrong(bits: int, shape: tuple[int, int]) -> Iterator[str]:
    """What differs of one matrix."""
    rows, columns = shape
    packed, exact = quantized((torch.randn(rows, columns, device="cuda") * 0.02).half(), bits)
    bias = torch.randn(rows, device="cuda").half()
    for tiling in tilings(bits):
        if columns % tiling.step:
            continue
        some = (5 * tiling.bm + 3,) if shape in BROAD else rows_of(tiling)
        for m, per_tile in itertools.product(some, {0, 1, min(3, columns // tiling.step)}):
            if not are_shared(tiling, m, shape, per_tile):
                continue
            way = replace(tiling, per_tile=per_tile)
            x = torch.randn(m, columns, device="cuda").half()
            wanted = x.double() @ exact.T
            plain = gemm.fused(x, *packed, None, bits, way)
            added = gemm.fused(x, *packed, bias, bits, way)
            held = {
                "product": error(plain, wanted) < WORST,
                "with a bias": error(added, wanted + bias.double()) < WORST,
                "the same bits": torch.equal(plain, gemm.fused(x, *packed, None, bits, way)),
                "in a graph": torch.equal(plain, in_graph(x, packed, bits, way)),
            }
            for what, fine in held.items():
                if not fine:
                    yield f"{what}: {bits} bits, {m} x {columns} x {rows}, {way}: {error(plain, wanted):.2e}"


def fronts(bits: int, columns: int) -> Iterator[str]:
    """What is wrong with norms and gated SiLUs that go with a product."""
    packed, _ = quantized((torch.randn(272, columns, device="cuda") * 0.02).half(), bits)
    for line in different(product, (*packed, None, bits, 272), torch.float16, columns, M):
        yield f"{bits} bits, {line}"


def padded(bits: int) -> Iterator[str]:
    """What is wrong where neither rows nor columns are whole tiles."""
    rows, columns = 1000, 3590
    packed = pack((torch.randn(rows, columns, device="cuda") * 0.02).half(), bits)
    exact = unpack(packed, bits, torch.float64)[:rows, :columns]
    bias = torch.randn(rows, device="cuda").half()
    for m in M:
        x = torch.randn(m, columns, device="cuda").half()
        found = product.on_gpu(x, packed.qweight, packed.scales, bias, bits, rows)
        if not (far := error(found, x.double() @ exact.T + bias.double())) < WORST:
            yield f"{bits} bits, {m} x {columns} x {rows}: {far:.2e}"


def every(bits: int) -> Iterator[str]:
    """The first of each sort."""
    sorts = [
        *(wrong(bits, shape) for shape in (*SHAPES, *BROAD)),
        *(fronts(bits, columns) for columns in FRONTS),
        padded(bits),
    ]
    for lines in sorts:
        yield from itertools.islice(lines, 5)


def main() -> int:
    """Print what differs."""
    torch.manual_seed(0)
    found = [line for bits in (4, 8) for line in every(bits)]
    print("\n".join(found) or "packed: every tile streams what float64 has")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
