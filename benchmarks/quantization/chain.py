"""On a GPU: the products of Qwen2-7B's layers in the order of the model, with the norms and SiLUs in front of them.

    PYTHONPATH=server/src python benchmarks/quantization/chain.py [--weights fp8 8 4] [--m 1 10 64]

Eight layers' weights in one CUDA graph, a copy in the place of attention; printed as milliseconds of 28 layers.
`separate` has norm and SiLU by torch.compile, `fused` has them with the product. Up to 64 rows no vLLM is needed. Then
what the kernel in front costs: the same without it (FP8 alone).
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from tables import LAYER, LAYERS, SHAPES
from timing import error, graph_us
from weights import fp8_of, quantized
from windlass.quantization import product as packed
from windlass.quantization.fp8 import product as fp8
from windlass.quantization.kernels.tokens import Tokens

WIDTH, EPSILON = SHAPES["o"][0], 1e-6
HELD = 8  # layers with weights of their own
Weights = tuple[Any, ...]
Layer = tuple[Weights, Weights, Weights, Weights]
State = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Kind:
    """Products of one sort of weights, and the type of x."""

    of: Any
    dtype: torch.dtype

    def weights(self, name: str, words: str) -> Weights:
        """What the product takes behind x."""
        weight = (torch.randn(*SHAPES[name], device="cuda") * 0.02).to(self.dtype)
        if words == "fp8":
            return (*fp8_of(weight)[:2], None)
        return (*quantized(weight, int(words))[0], None, int(words), SHAPES[name][0])


KINDS = {
    "fp8": Kind(fp8, torch.bfloat16),
    "8": Kind(packed, torch.float16),
    "4": Kind(packed, torch.float16),
}


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


def separate(kind: Kind, state: State, layer: Layer, gain: torch.Tensor) -> State:
    """One layer without its attention."""
    (x, residual), (qkv, o, gate_up, down) = state, layer
    x, residual = norm(x, residual, gain)
    x = kind.of.on_gpu(kind.of.on_gpu(x, *qkv)[:, :WIDTH].contiguous(), *o)
    x, residual = norm(x, residual, gain)
    return kind.of.on_gpu(gated(kind.of.on_gpu(x, *gate_up)), *down), residual


def fused(kind: Kind, state: State, layer: Layer, gain: torch.Tensor) -> State:
    """The same, as the pass over the engine's graph makes it."""
    (x, residual), (qkv, o, gate_up, down) = state, layer
    x, residual = kind.of.after_add_norm(x, residual, gain, EPSILON, *qkv)
    x = kind.of.on_gpu(x[:, :WIDTH].contiguous(), *o)
    x, residual = kind.of.after_add_norm(x, residual, gain, EPSILON, *gate_up)
    return kind.of.after_silu(x, *down), residual


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
    parser.add_argument("--weights", nargs="+", default=["fp8"], choices=list(KINDS))
    parser.add_argument("--m", type=int, nargs="+", default=[1, 2, 4, 8, 10, 16, 32, 64])
    wanted = parser.parse_args()
    torch.manual_seed(0)
    for words in wanted.weights:
        kind = KINDS[words]
        layers: list[Any] = [tuple(kind.weights(name, words) for name in LAYER) for _ in range(HELD)]
        gain = torch.ones(WIDTH, device="cuda", dtype=kind.dtype)
        one, other = (functools.partial(way, kind) for way in (separate, fused))
        ways: dict[str, tuple[Callable[..., State], Any]] = {
            "separate": (one, nullcontext()),
            "fused": (other, nullcontext()),
        }
        if words == "fp8":
            ways["without SiLU's kernel"] = other, Without(is_gated=True)
            ways["without the other kernels in front"] = other, Without(is_gated=False)
        for m in wanted.m:
            x = torch.randn(m, WIDTH, device="cuda").to(kind.dtype)
            first = (x, x * 0.5)
            far = error(other(first, layers[0], gain)[0], one(first, layers[0], gain)[0].double())
            found = {}
            for name, (way, held) in ways.items():
                with held:
                    found[name] = round(milliseconds(way, first, layers, gain), 3)
            print(words, m, found, f"apart {far:.1e}", flush=True)


if __name__ == "__main__":
    main()
