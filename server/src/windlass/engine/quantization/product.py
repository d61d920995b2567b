"""The product of activations and a quantized matrix, whatever the device and the shape.

For torch.compile it is the operator `windlass::quantized_linear`, one opaque node; a plain call goes past dispatching.
On a GPU what is in front of it in a model, a norm or a gated SiLU, can go with it: `fuse` puts the operators for that
into the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear, pad

from windlass.engine.quantization.kernels import gemm
from windlass.engine.quantization.kernels.choice import choose
from windlass.engine.quantization.kernels.tokens import Tokens
from windlass.engine.quantization.layout import Packed, unpack
from windlass.engine.quantization.operators import LIBRARY, define


def product(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    """x [..., columns] times the quantized matrix: [..., rows], in x's dtype; on a GPU x is float16."""
    if torch.compiler.is_compiling():
        out: torch.Tensor = quantized_linear(x, qweight, scales, bias, bits, rows)
        return out
    return (on_gpu if x.is_cuda else on_cpu)(x, qweight, scales, bias, bits, rows)


def on_gpu(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    """x [..., columns] float16 times the quantized matrix: [..., rows]."""
    if not x.numel():
        return x.new_empty(*x.shape[:-1], rows)
    down, columns, given = qweight.shape[0] * 16, qweight.shape[1] * 64, x.shape[-1]
    flat = x.reshape(-1, given).contiguous()
    if columns != given:
        flat = pad(flat, (0, columns - given))
    added = bias if bias is None or down == rows else pad(bias, (0, down - rows))
    tiling = choose(bits, (len(flat), down, columns), *gemm.card(x.get_device()))
    if tiling is None:
        out = linear(flat, gemm.dequantized(qweight, scales, bits), added)
    else:
        out = gemm.fused(flat, qweight, scales, added, bits, tiling)
    if down != rows:
        out = out[:, :rows].contiguous()
    return out if x.dim() == 2 else out.view(*x.shape[:-1], rows)


def after_silu(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    """On a GPU: the product of what SiLU of the first half of x [m, 2 columns] times its second half is."""
    return _behind(Tokens(x.contiguous(), is_gated=True), qweight, scales, bias, bits, rows)


def after_norm(  # noqa: PLR0913, PLR0917 - an operator: no structures
    x: torch.Tensor,
    gain: torch.Tensor,
    epsilon: float,
    qweight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    bits: int,
    rows: int,
) -> torch.Tensor:
    """On a GPU: the product of x [m, columns] divided by its root mean square and multiplied by gain [columns]."""
    return _behind(Tokens(x.contiguous(), gain=gain, epsilon=epsilon), qweight, scales, bias, bits, rows)


def after_add_norm(  # noqa: PLR0913, PLR0917
    x: torch.Tensor,
    residual: torch.Tensor,
    gain: torch.Tensor,
    epsilon: float,
    qweight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    bits: int,
    rows: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of x + residual; and that sum."""
    tokens = Tokens(x.contiguous(), gain=gain, epsilon=epsilon, residual=residual.contiguous())
    out = _behind(tokens, qweight, scales, bias, bits, rows)
    return out, torch.empty_like(residual) if tokens.total is None else tokens.total


def _behind(
    tokens: Tokens, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    if not tokens.x.numel():
        return tokens.x.new_empty(len(tokens.x), rows)
    return on_gpu(tokens.whole(), qweight, scales, bias, bits, rows)


def on_cpu(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    """The same in x's dtype, exactly."""
    weight = unpack(Packed(qweight, scales), bits, x.dtype)[:rows, : x.shape[-1]]
    return linear(x, weight, bias)


def _fake(x: torch.Tensor, *words: Any) -> torch.Tensor:  # noqa: ANN401 - the last of them is `rows`
    return x.new_empty(*x.shape[:-1], words[-1])


def _fake_add_norm(x: torch.Tensor, residual: torch.Tensor, *words: Any) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ANN401
    return _fake(x, *words), torch.empty_like(residual)


define("quantized_linear", on_gpu, _fake)
define("quantized_linear_after_silu", after_silu, _fake)
define("quantized_linear_after_norm", after_norm, _fake)
define("quantized_linear_after_add_norm", after_add_norm, _fake_add_norm)
LIBRARY.impl("quantized_linear", on_cpu, "CPU")
quantized_linear = torch.ops.windlass.quantized_linear.default
