"""Runs inside the serving image: the graphs in which norms and gated SiLUs go into our products, and what they compute.

The operators get a product for the CPU here; graphs are those that torch.compile hands to Inductor.
"""

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
import vllm.ir.ops as ir
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.source import LocalSource
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from vllm.config import CompilationConfig, VllmConfig
from vllm.platforms import current_platform
from windlass.engine.quantization import fuse, fuse_nodes
from windlass.engine.quantization.fp8.product import fp8_linear
from windlass.engine.quantization.layout import pack
from windlass.engine.quantization.product import on_cpu, quantized_linear

COLUMNS, ROWS, EPSILON = 64, 48, 1e-6
WORST = 0.02  # of bfloat16, relative: what is fused is rounded less often
DRAWN = ((torch.bfloat16, None), (torch.float16, None), (torch.float16, 4), (torch.float16, 8))
Tensors = tuple[torch.Tensor, ...]


Product = Callable[..., torch.Tensor]


def multiplied(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: Any) -> torch.Tensor:
    """The product with FP8 in float32."""
    out = x.float() @ weight.float() * scales.t()
    return (out if bias is None else out + bias.float()).to(x.dtype)


def normed(x: torch.Tensor, gain: torch.Tensor, epsilon: float) -> torch.Tensor:
    """As the kernel: rounded once."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * gain.float()).to(x.dtype)


def after_silu(product: Product, x: torch.Tensor, *weights: Any) -> torch.Tensor:
    """As the kernel."""
    half = x.shape[1] // 2
    return product((F.silu(x[:, :half].float()) * x[:, half:].float()).to(x.dtype), *weights)


def after_norm(product: Product, x: torch.Tensor, gain: torch.Tensor, epsilon: float, *weights: Any) -> torch.Tensor:
    """As the kernel."""
    return product(normed(x, gain, epsilon), *weights)


def after_add_norm(
    product: Product, x: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor, epsilon: float, *weights: Any
) -> Tensors:
    """As the kernel."""
    total = x.float() + residual.float()
    return product(normed(total, gain, epsilon).to(x.dtype), *weights), total.to(x.dtype)


LIBRARY = torch.library.Library("windlass", "FRAGMENT")
LIBRARY.impl("fp8_linear", multiplied, "CPU")  # of packed weights there is one
for name, product in (("fp8_linear", multiplied), ("quantized_linear", on_cpu)):
    for way in (after_silu, after_norm, after_add_norm):
        LIBRARY.impl(f"{name}_{way.__name__}", functools.partial(way, product), "CPU")


class Layer(torch.nn.Module):
    """A gated layer between two norms, as in most models; in FP8, or packed in so many bits."""

    def __init__(self, dtype: torch.dtype, bits: int | None, *, has_bias: bool) -> None:
        super().__init__()
        self.gains = [(torch.rand(COLUMNS) + 0.5).to(dtype) for _ in range(3)]
        shapes = ((COLUMNS, 2 * ROWS), (ROWS, COLUMNS), (COLUMNS, ROWS))
        bias = [torch.randn(rows).to(dtype) if has_bias else None for _, rows in shapes]
        self.product: Product = fp8_linear if bits is None else quantized_linear
        self.words = [self.weights(*shape, bits, added) for shape, added in zip(shapes, bias, strict=True)]

    def weights(self, columns: int, rows: int, bits: int | None, bias: torch.Tensor | None) -> tuple[Any, ...]:
        """What the operator takes behind x."""
        weight = torch.randn(rows, columns)
        if bits is None:
            return weight.to(torch.float8_e4m3fn).t(), torch.rand(rows, 1) * 0.1, bias
        packed = pack(weight * 0.1, bits)
        return packed.qweight, packed.scales, bias, bits, rows

    def linear(self, x: torch.Tensor, at: int) -> torch.Tensor:
        """One of three."""
        return self.product(x, *self.words[at])

    def forward(self, x: torch.Tensor) -> Tensors:
        """Two norms, one of them with a sum, and a gated SiLU."""
        x = self.linear(self.gated(self.linear(ir.rms_norm(x, self.gains[0], EPSILON), 0)), 1) + x * 0
        y, total = ir.fused_add_rms_norm(x, x * 2, self.gains[1].data, EPSILON)
        return self.linear(y, 2), total

    def gated(self, x: torch.Tensor) -> torch.Tensor:
        """As the engine's SiluAndMul for every device."""
        half = x.shape[-1] // 2
        return F.silu(x[..., :half]) * x[..., half:]


class Others(Layer):
    """What must stay: x that somebody else reads too, halves the wrong way round, another activation, a plain norm."""

    def forward(self, x: torch.Tensor) -> Tensors:
        """None of these is one of ours."""
        shared = ir.rms_norm(x, self.gains[0], EPSILON)
        wide = self.linear(shared, 0)
        half = wide.shape[-1] // 2
        swapped = self.linear(F.silu(wide[..., half:]) * wide[..., :half], 1)
        other = self.linear(F.gelu(wide[..., :half]) * wide[..., half:], 1)
        plain = self.linear(ir.rms_norm(x, None, EPSILON), 2)
        partly = self.linear(ir.rms_norm(x, self.gains[0], EPSILON, 32), 2)
        return shared, swapped, other, plain, partly


def compiled(module: Layer, x: torch.Tensor, *, fused: bool) -> tuple[Tensors, int]:
    """What it computes, and how many nodes were put into operators."""
    counts = []

    def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
        counts.append(fuse_nodes.fuse(graph.graph) if fused else 0)
        graph.recompile()
        return graph

    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0)
    backend = aot_autograd(fw_compiler=compiler, decompositions=select_decomp_table())
    with torch.no_grad():
        found = torch.compile(module, backend=backend, fullgraph=True)(x)
    return found, sum(counts)


def specialized(dtype: torch.dtype, bits: int | None) -> list[str]:
    """Operators whose number of rows is not free in a graph: the engine compiles one graph for every number."""
    module, found = Layer(dtype, bits, has_bias=True), []
    weights, norm = module.words[0], (module.gains[0], EPSILON)
    product = "fp8_linear" if bits is None else "quantized_linear"
    rest: dict[str, tuple[Any, ...]] = {
        product: weights,
        f"{product}_after_silu": weights,
        f"{product}_after_norm": (*norm, *weights),
        f"{product}_after_add_norm": (*norm, *weights),
    }
    for name, words in rest.items():
        places = 2 if "add" in name else 1
        x = torch.randn(5, COLUMNS * (2 if "silu" in name else 1)).to(dtype)
        call = getattr(torch.ops.windlass, name)
        environment = ShapeEnv()
        mode = FakeTensorMode(shape_env=environment, static_shapes=False, allow_non_fake_inputs=True)
        dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
        fake = [mode.from_tensor(x, symbolic_context=dynamic, source=LocalSource(f"x{at}")) for at in range(places)]
        with mode:
            out = call(*fake, *words)
        first = out[0] if isinstance(out, tuple) else out
        if environment.guards or not isinstance(first.shape[0], torch.SymInt):
            found.append(f"{name} is bound to {first.shape[0]} rows: {environment.guards}")
    return found


def wrong() -> list[str]:
    """Everything that is not as it should be."""
    found = []
    for dtype, bits in DRAWN:
        found += specialized(dtype, bits)
        for has_bias, (kind, wanted) in ((b, k) for b in (False, True) for k in ((Layer, 3), (Others, 0))):
            torch.manual_seed(0)
            module, x = kind(dtype, bits, has_bias=has_bias), torch.randn(5, COLUMNS).to(dtype)
            plain, _ = compiled(module, x, fused=False)
            ours, count = compiled(module, x, fused=True)
            if count != wanted:
                found.append(f"{kind.__name__} {dtype} {bits} {has_bias}: {count} of {wanted} nodes were fused")
            for at, (one, two) in enumerate(zip(plain, ours, strict=True)):
                far = float((one.float() - two.float()).norm() / one.float().norm())
                if not far < WORST:
                    found.append(f"{kind.__name__} {dtype} {bits} {has_bias} output {at}: {far:.1e}")
    config = VllmConfig(compilation_config=CompilationConfig())
    before = config.compute_hash()
    fuse.enable(config)
    first = config.compilation_config.inductor_compile_config[current_platform.pass_key]
    fuse.enable(config)
    if config.compilation_config.inductor_compile_config[current_platform.pass_key] is not first:
        found.append("a second call puts another pass there")
    if config.compute_hash() == before:
        found.append("the compile cache does not know of the pass")
    return found


if __name__ == "__main__":
    print("RESULT", json.dumps({"wrong": wrong()}))
    sys.stdout.flush()
