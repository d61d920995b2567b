"""The product of activations and FP8 weights on a GPU, as vLLM lays them: which kernel depends on the rows alone.

Few rows, as in decoding, are multiplied as they are by our kernel, which is more exact and quantizes nothing. More are
quantized by token and multiplied, FP8 with FP8, by ours too while the weights' way from memory is what takes the time,
then by vLLM's CUTLASS kernel. For torch.compile all are the operator `windlass::fp8_linear`, one opaque node; a plain
call goes past dispatching.
"""

from __future__ import annotations

import torch

from windlass.quantization.kernels import gemm
from windlass.quantization.kernels.choice import choose_fp8, choose_stream, fits_fp8


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
    if not x.numel():
        return x.new_empty(*x.shape[:-1], rows)
    flat = x.reshape(-1, columns).contiguous()
    tiling = choose_fp8((len(flat), rows, columns), *gemm.card(x.get_device()))
    out = gemm.fused_fp8(flat, weight, scales, bias, tiling) if tiling else by_fp8(flat, weight, scales, bias)
    return out if x.dim() == 2 else out.view(*x.shape[:-1], rows)


def by_fp8(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x [m, columns], contiguous, quantized by token, times the matrix, by our kernel or by vLLM's: [m, rows]."""
    m, columns = x.shape
    tiling = choose_stream((m, weight.shape[1], columns), *gemm.card(x.get_device()))
    return gemm.streamed(x, weight, scales, bias, tiling) if tiling else by_cutlass(x, weight, scales, bias)


def by_cutlass(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The same by vLLM's kernel."""
    tokens, token_scales = gemm.quantized_tokens(x)
    out = x.new_empty(len(x), weight.shape[1])
    torch.ops._C.cutlass_scaled_mm(out, tokens, weight, token_scales, scales, bias)
    return out


def _fake(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[1])


_library = torch.library.Library("windlass", "FRAGMENT")
_library.define(f"fp8_linear{torch.library.infer_schema(on_gpu, mutates_args=())}")
_library.impl("fp8_linear", on_gpu, "CUDA")
torch.library.register_fake("windlass::fp8_linear", _fake, lib=_library)
fp8_linear = torch.ops.windlass.fp8_linear.default
