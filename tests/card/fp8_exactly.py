"""On a GPU with vLLM: the product of `--quantization fp8` against float64, and its tokens against vLLM's, bit by bit.

    PYTHONPATH=server/src python tests/card/fp8_exactly.py

Rows of x on both sides of every border, matrices that end within a tile, split sums, float16 and bfloat16, with a bias
and without; twice, for the same bits, in a graph and under torch.compile. Exits 1 with what differs.
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks/quantization"))

from fronts import different
from timing import error
from vllm import _custom_ops as ops
from weights import fp8_of
from windlass.engine.quantization.fp8 import product
from windlass.engine.quantization.fp8.product import fp8_linear, on_gpu, takes
from windlass.engine.quantization.kernels import gemm
from windlass.engine.quantization.kernels.choice import choose_fp8, choose_stream
from windlass.engine.quantization.kernels.tiling import Few, Stream
from windlass.engine.quantization.kernels.tokens import Tokens

M = (1, 3, 8, 10, 16, 17, 32, 33, 64, 220)
SHAPES = (
    (4608, 3584),
    (3584, 9472),
    (272, 4864),
    (48, 64),
    (48, 128),
    (1040, 18944),
)  # rows, columns; whole tiles of 16, not more
OURS, STREAMED = 8, 64  # rows that our kernels take: as they are, and as FP8
WORST = {torch.float16: 1e-3, torch.bfloat16: 4e-3}  # rounding of the output, relative in the Frobenius norm
WORST_WITH_FP8 = 6e-3  # Hopper's tensor cores add FP8 products with fewer bits than float32: 3.4e-3 with 18944 columns
FRONTS = (256, 3584, 4160, 8256, 8320, 18944)  # columns
TOKENS = (64, 3584, 8200, 18944, 65536)  # columns
CARD = torch.cuda.get_device_properties(0)


def products(dtype: torch.dtype, shape: tuple[int, int]) -> Iterator[str]:
    """What is wrong with the products of one matrix."""
    rows, columns = shape
    weight, scales, exact = fp8_of(torch.randn(rows, columns, device="cuda").to(dtype) * 0.02)
    if not takes(weight):
        yield f"{shape} is not taken"
    compiled = torch.compile(lambda x, bias: fp8_linear(x, weight, scales, bias) + 1, fullgraph=True)
    for m, has_bias in itertools.product(M, (False, True)):
        x = torch.randn(m, columns, device="cuda").to(dtype)
        bias = torch.randn(rows, device="cuda").to(dtype) if has_bias else None
        tiling = choose_fp8((m, rows, columns), CARD.multi_processor_count, CARD.major)
        stream = choose_stream((m, rows, columns), CARD.multi_processor_count, CARD.major)
        if (tiling is None) != (m > OURS) or (stream is None) != (m > STREAMED or columns % 128 > 0):
            yield f"{m} rows of x have the tiles {tiling} and {stream}"
        more = 0 if bias is None else bias.double()
        rounded = _again(*ops.scaled_fp8_quant(x, use_per_token_if_dynamic=True)) @ exact.T + more
        as_it_is = x.double() @ exact.T + more
        ways = {"product": on_gpu(x, weight, scales, bias), "in a graph": _captured(x, weight, scales, bias)}
        if columns == 3584:
            ways["compiled"] = compiled(x, bias) - 1
        is_few = stream is None and tiling is not None
        checks = [(name, found, as_it_is if is_few else rounded, is_few) for name, found in ways.items()]
        checks += [(name, found, as_it_is, True) for name, found in _few(x, weight, scales, bias, tiling)]
        checks += [(name, found, rounded, False) for name, found in _streamed(x, weight, scales, bias, stream)]
        for name, found, wanted, is_whole in checks:
            worst = WORST[dtype] if is_whole else WORST_WITH_FP8
            if not error(found, wanted) < worst * (10 if name == "compiled" else 1):  # 1 was added and taken away
                yield f"{dtype} {shape} {m} rows, bias {has_bias}, {name}: {error(found, wanted):.2e}"
        if not torch.equal(on_gpu(x, weight, scales, bias), ways["product"]):
            yield f"{dtype} {shape} {m} rows: other bits the second time"


def _few(x: torch.Tensor, *rest: Any) -> Iterator[tuple[str, torch.Tensor]]:  # noqa: ANN401 - its last is tiles
    """x as it is, by every kind of tiles, where it has some."""
    *weights, tiling = rest
    if tiling is None:
        return
    yield "plain", gemm.fused_fp8(x, *weights, replace(tiling, ahead=False))
    for count, tiles in itertools.product((1, 2, 5), (Few(1, 1, 4, 2, 2), Few(4, 2, 2, 4, 1), Few(2, 1, 2, 4, 4))):
        if count <= -(-x.shape[1] // tiles.step):
            choice = replace(tiles, splits=count, ahead=CARD.major == 9)
            yield f"{choice}", gemm.fused_fp8(x, *weights, choice)


def _streamed(x: torch.Tensor, *rest: Any) -> Iterator[tuple[str, torch.Tensor]]:  # noqa: ANN401 - its last is tiles
    """x as FP8, by every kind of tiles, where it has some."""
    *weights, stream = rest
    if stream is None:
        return
    shares = [replace(stream, per_tile=count) for count in (0, 1, 2, 3) if count <= x.shape[1] // stream.step]
    for tiles in (*shares, Stream(stream.bm, 2, 1, 5), Stream(stream.bm, 1, 2, 5)):
        yield f"{tiles}", gemm.streamed(Tokens(x).quantized(tiles.bm), *weights, tiles, x.dtype)


def _again(tokens: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return tokens.double() * scales.double()


def _captured(x: torch.Tensor, *rest: torch.Tensor | None) -> torch.Tensor:
    """The last of three products in a replayed graph, behind a kernel that makes x there."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        made = x.clone()
        for _ in range(3):
            out = on_gpu(made, *rest)
            made = made + out[:, :1] * 0
    graph.replay()
    torch.cuda.synchronize()
    return out


def fronts(dtype: torch.dtype, columns: int) -> Iterator[str]:
    """What is wrong with norms and gated SiLUs that go with a product."""
    weight, scales, _ = fp8_of(torch.randn(272, columns, device="cuda").to(dtype) * 0.02)
    yield from different(product, (weight, scales, None), dtype, columns, M)


def tokens(dtype: torch.dtype, columns: int) -> Iterator[str]:
    """What of our tokens is not vLLM's."""
    x = torch.randn(67, columns, device="cuda").to(dtype)
    x[1], x[2, 5], x[3] = 0, 60000, x[3] * 1e-6
    wanted, found = ops.scaled_fp8_quant(x, use_per_token_if_dynamic=True), Tokens(x).quantized()
    if not torch.equal(wanted[1], found[1]):
        yield f"{dtype} {columns} columns: scales differ"
    if different := int((wanted[0].view(torch.uint8) != found[0].view(torch.uint8)).sum()):
        yield f"{dtype} {columns} columns: {different} of {x.numel()} tokens' numbers differ"


def main() -> list[str]:
    """Everything that is wrong."""
    torch.manual_seed(0)
    wrong = [what for dtype, columns in itertools.product(WORST, TOKENS) for what in tokens(dtype, columns)]
    wrong += [what for dtype, columns in itertools.product(WORST, FRONTS) for what in fronts(dtype, columns)]
    return wrong + [what for dtype, shape in itertools.product(WORST, SHAPES) for what in products(dtype, shape)]


if __name__ == "__main__":
    if wrong := main():
        sys.exit("\n".join(wrong))
    print("fp8: few rows are within float16's and bfloat16's rounding, FP8 times FP8 within its own, tokens are vLLM's")
