"""The operator `windlass::quantized_linear`: one opaque call for torch.compile, whatever the device and the shape."""

from __future__ import annotations

import functools

import torch
from torch.nn.functional import linear, pad

from windlass.quantization.kernels import gemm
from windlass.quantization.kernels.choice import choose
from windlass.quantization.layout import Packed, unpack


@functools.cache
def _card(device: int) -> tuple[int, int]:
    """Multiprocessors and the major capability."""
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.major


@torch.library.custom_op("windlass::quantized_linear", mutates_args=())  # type: ignore[untyped-decorator]
def quantized_linear(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    """x [..., columns] times the quantized matrix: [..., rows], in x's dtype; on a GPU x is float16."""
    packed = Packed(qweight, scales)
    if not x.is_cuda:
        weight = unpack(packed, bits, x.dtype)[:rows, : x.shape[-1]]
        return linear(x, weight, bias)
    down, columns = qweight.shape[0] * 16, qweight.shape[1] * 64
    flat = x.reshape(-1, x.shape[-1]).contiguous()
    if columns != x.shape[-1]:
        flat = pad(flat, (0, columns - x.shape[-1]))
    added = bias if bias is None or down == rows else pad(bias, (0, down - rows))
    tiling = choose(bits, (len(flat), down, columns), *_card(x.device.index))
    if tiling is None:
        out = linear(flat, gemm.dequantized(qweight, scales, bits), added)
    else:
        out = gemm.fused(flat, qweight, scales, added, bits, tiling)
    return out[:, :rows].reshape(*x.shape[:-1], rows).contiguous()


@quantized_linear.register_fake  # type: ignore[untyped-decorator]
def _(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], rows)
