"""On a GPU: the FP8 products of Qwen2-7B's layers in the order of the model, with the norms and SiLUs in front of them.

    PYTHONPATH=server/src python benchmarks/quantization/chain.py [--m 1 10 64]

Eight layers' weights in one CUDA graph, a copy in the place of attention; printed as milliseconds of 28 layers.
`separate` has norm and SiLU by torch.compile, `fused` has them with the product. Up to 64 rows no vLLM is needed. Then
what the kernel in front costs: the same without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from kernels import SHAPES
from tables import LAYER, LAYERS
from timing import error, graph_us
from weights import fp8_of
from windlass.quantization.fp8.product import after_add_norm, after_silu, on_gpu
from windlass.quantization.kernels.tokens import Tokens

WIDTH, EPSILON = SHAPES["o"][0], 1e-6
HELD = 8  # layers with weights of their own
Weights = tuple[torch.Tensor, torch.Tensor]
Layer = tuple[Weights, Weights, Weights, Weights]
State = tuple[torch.Tensor, torch.Tensor]


@torch.compile(dynamic=False)
def norm(x: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor) -> State:
    """As vLLM's, of the sum; and the sum."""
    total = x.float() + residual.float()
    factor = torch.rsqrt(total.square().mean(-1, keepdim=True) + EPSILON)
    return (total * factor * gain.float()).to(x.dtype), total.to(x.dtype)


@torch.compile(dynamic=False)
def gated(x: torch.Tensor) -> torch.Tensor:
    """As vLLM's SiluAndMul."""
    first, second = x.chunk(2, -1)
    return torch.nn.functional.silu(first) * second


def separate(state: State, layer: Layer, gain: torch.Tensor) -> State:
    """One layer without its attention."""
    (x, residual), (qkv, o, gate_up, down) = state, layer
    x, residual = norm(x, residual, gain)
    x = on_gpu(on_gpu(x, *qkv, None)[:, :WIDTH].contiguous(), *o, None)
    x, residual = norm(x, residual, gain)
    return on_gpu(gated(on_gpu(x, *gate_up, None)), *down, None), residual


def fused(state: State, layer: Layer, gain: torch.Tensor) -> State:
    """The same, as the pass over the engine's graph makes it."""
    (x, residual), (qkv, o, gate_up, down) = state, layer
    x, residual = after_add_norm(x, residual, gain, EPSILON, *qkv, None)
    x = on_gpu(x[:, :WIDTH].contiguous(), *o, None)
    x, residual = after_add_norm(x, residual, gain, EPSILON, *gate_up, None)
    return after_silu(x, *down, None), residual


def milliseconds(way: Callable[..., State], first: State, layers: list[Layer], gain: torch.Tensor) -> float:
    """Of all layers of the model."""

    def run() -> State:
        state = first
        for layer in layers:
            state = way(state, layer, gain)
        return state

    run()
    return graph_us([run], 7) / len(layers) * LAYERS / 1000


class Without:
    """While it is entered, tokens are those of the first call: of gated ones, or of all others."""

    def __init__(self, *, is_gated: bool) -> None:
        self._is_gated, self._made = is_gated, Tokens.quantized
        self._held: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def __enter__(self) -> None:
        made, held, wanted = self._made, self._held, self._is_gated

        def quantized(tokens: Tokens, tiled: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
            if tokens.is_gated != wanted:
                return made(tokens, tiled)
            key = len(tokens.x), tokens.columns, tiled
            if key not in held:
                held[key] = made(tokens, tiled)
            tokens.total = tokens.residual
            return held[key]

        Tokens.quantized = quantized  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        Tokens.quantized = self._made  # type: ignore[method-assign]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--m", type=int, nargs="+", default=[1, 2, 4, 8, 10, 16, 32, 64])
    wanted = parser.parse_args()
    torch.manual_seed(0)
    layers: list[Any] = [
        tuple(fp8_of((torch.randn(*SHAPES[name], device="cuda") * 0.02).bfloat16())[:2] for name in LAYER)
        for _ in range(HELD)
    ]
    gain = torch.ones(WIDTH, device="cuda", dtype=torch.bfloat16)
    for m in wanted.m:
        x = torch.randn(m, WIDTH, device="cuda").bfloat16()
        first = (x, x * 0.5)
        far = error(fused(first, layers[0], gain)[0], separate(first, layers[0], gain)[0].double())
        found = {way.__name__: milliseconds(way, first, layers, gain) for way in (separate, fused)}
        for is_gated, name in ((True, "without SiLU's kernel"), (False, "without the other kernels in front")):
            with Without(is_gated=is_gated):
                found[name] = milliseconds(fused, first, layers, gain)
        print(m, {name: round(ms, 3) for name, ms in found.items()}, f"apart {far:.1e}", flush=True)


if __name__ == "__main__":
    main()
