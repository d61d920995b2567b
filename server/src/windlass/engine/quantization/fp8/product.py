"""The product of activations and FP8 weights on a GPU, as vLLM lays them: which kernel depends on the rows alone.

Rows are quantized by token and multiplied, FP8 with FP8: on Hopper by our kernel while the weights' way from memory is
what takes the time, as in decoding, then by vLLM's CUTLASS kernel. On other cards, and where the columns are no
multiple of 128, few rows are multiplied as they are, by a kernel that quantizes nothing. For torch.compile a product is
an operator, `windlass::fp8_linear`, one opaque node; a plain call goes past dispatching. What is in front of a product
in a model, a norm or a gated SiLU, can go with it: `fuse` puts the operators for that into the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from windlass.engine.quantization.kernels import gemm
from windlass.engine.quantization.kernels.choice import choose_fp8, choose_stream, fits_fp8
from windlass.engine.quantization.kernels.tokens import Tokens
from windlass.engine.quantization.operators import define

X_TYPES = tuple(gemm.FP8_OF)


def takes(weight: torch.Tensor) -> bool:
    """Whether a matrix [columns, rows] is one that the kernels here read: E4M3, its columns contiguous."""
    columns, rows = weight.shape
    is_laid_so: bool = weight.dtype == torch.float8_e4m3fn and weight.is_cuda and weight.stride() == (1, columns)
    return fits_fp8(columns, rows) and is_laid_so


def product(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x [..., columns] float16 or bfloat16 times E4M3 [columns, rows] with scales [rows, 1]: [..., rows], as x."""
    if torch.compiler.is_compiling():
        out: torch.Tensor = fp8_linear(x, weight, scales, bias)
        return out
    return on_gpu(x, weight, scales, bias)


def on_gpu(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The same, outside torch.compile."""
    columns, rows = weight.shape
    out = multiplied(Tokens(x.reshape(-1, columns).contiguous()), weight, scales, bias)
    return out if x.dim() == 2 else out.view(*x.shape[:-1], rows)


def after_silu(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The product of what SiLU of the first half of x [m, 2 columns] times its second half is."""
    return multiplied(Tokens(x.contiguous(), is_gated=True), weight, scales, bias)


def after_norm(
    x: torch.Tensor,
    gain: torch.Tensor,
    epsilon: float,
    weight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """The product of x [m, columns] divided by its root mean square and multiplied by gain [columns], of x's type."""
    return multiplied(Tokens(x.contiguous(), gain=gain, epsilon=epsilon), weight, scales, bias)


def after_add_norm(  # noqa: PLR0913, PLR0917 - an operator: no structures
    x: torch.Tensor,
    residual: torch.Tensor,
    gain: torch.Tensor,
    epsilon: float,
    weight: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of x + residual; and that sum."""
    tokens = Tokens(x.contiguous(), gain=gain, epsilon=epsilon, residual=residual.contiguous())
    out = multiplied(tokens, weight, scales, bias)
    return out, torch.empty_like(residual) if tokens.total is None else tokens.total


def multiplied(tokens: Tokens, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """[m, columns] times the matrix, by the kernel for so many rows: [m, rows]."""
    columns, rows = weight.shape
    x = tokens.x
    if not x.numel():
        return x.new_empty(len(x), rows)
    shape, card = (len(x), rows, columns), gemm.card(x.get_device())
    if stream := choose_stream(shape, *card):
        return gemm.streamed(tokens.quantized(stream.bm), weight, scales, bias, stream, x.dtype)
    if few := choose_fp8(shape, *card):
        return gemm.fused_fp8(tokens.whole(), weight, scales, bias, few)
    return by_cutlass(tokens, weight, scales, bias)


def by_cutlass(tokens: Tokens, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The same by vLLM's kernel, FP8 with FP8."""
    values, token_scales = tokens.quantized()
    out = tokens.x.new_empty(len(values), weight.shape[1])
    torch.ops._C.cutlass_scaled_mm(out, values, weight, token_scales, scales, bias)
    return out


def _fake(x: torch.Tensor, *words: Any) -> torch.Tensor:  # noqa: ANN401 - the last of them: weight, scales, bias
    return x.new_empty(*x.shape[:-1], words[-3].shape[1])


def _fake_add_norm(x: torch.Tensor, residual: torch.Tensor, *words: Any) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ANN401
    return _fake(x, *words), torch.empty_like(residual)


define("fp8_linear", on_gpu, _fake)
define("fp8_linear_after_silu", after_silu, _fake)
define("fp8_linear_after_norm", after_norm, _fake)
define("fp8_linear_after_add_norm", after_add_norm, _fake_add_norm)
fp8_linear = torch.ops.windlass.fp8_linear.default
