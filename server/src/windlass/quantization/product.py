"""The product of activations and a quantized matrix, whatever the device and the shape.

For torch.compile it is the operator `windlass::quantized_linear`, one opaque node; a plain call goes past dispatching.
"""

from __future__ import annotations

import torch
from torch.nn.functional import linear, pad

from windlass.quantization.kernels import gemm
from windlass.quantization.kernels.choice import SLICE_BYTES, choose
from windlass.quantization.layout import Packed, unpack


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
        out = by_float16(flat, Packed(qweight, scales), added, bits, SLICE_BYTES)
    else:
        out = gemm.fused(flat, qweight, scales, added, bits, tiling)
    if down != rows:
        out = out[:, :rows].contiguous()
    return out if x.dim() == 2 else out.view(*x.shape[:-1], rows)


def on_cpu(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    """The same in x's dtype, exactly."""
    weight = unpack(Packed(qweight, scales), bits, x.dtype)[:rows, : x.shape[-1]]
    return linear(x, weight, bias)


def by_float16(x: torch.Tensor, packed: Packed, bias: torch.Tensor | None, bits: int, slice_bytes: int) -> torch.Tensor:
    """x [m, columns] times tiles that are made whole again, at most `slice_bytes` of them at once (0: all): [m, rows].

    The room for a slice is the same for all, so that what is written there need not leave the cache.
    """
    tiles, columns = packed.qweight.shape[0], packed.qweight.shape[1] * 64
    each = slice_bytes // (16 * columns * x.element_size()) or tiles
    if each >= tiles:
        return linear(x, _whole(packed, bits, x.new_empty(tiles * 16, columns)), bias)
    out, room = x.new_empty(len(x), tiles * 16), x.new_empty(each * 16, columns)
    unit = 16 if bits == 8 else 1  # NF4's scales lie by tiles
    for start in range(0, tiles, each):
        end = min(start + each, tiles)
        part = Packed(packed.qweight[start:end], packed.scales[start * unit : end * unit])
        turned, to = _whole(part, bits, room).T, out[:, start * 16 : end * 16]
        if bias is None:
            torch.mm(x, turned, out=to)
        else:
            torch.addmm(bias[start * 16 : end * 16], x, turned, out=to)
    return out


def _whole(packed: Packed, bits: int, room: torch.Tensor) -> torch.Tensor:
    if room.is_cuda:
        return gemm.dequantized(packed.qweight, packed.scales, bits, room)
    return room[: packed.qweight.shape[0] * 16].copy_(unpack(packed, bits, room.dtype))


def _fake(
    x: torch.Tensor, qweight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int, rows: int
) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], rows)


# by hand: torch.library.custom_op puts Python of its own in front of every call
_library = torch.library.Library("windlass", "FRAGMENT")
_library.define(f"quantized_linear{torch.library.infer_schema(on_gpu, mutates_args=())}")
_library.impl("quantized_linear", on_gpu, "CUDA")
_library.impl("quantized_linear", on_cpu, "CPU")
torch.library.register_fake("windlass::quantized_linear", _fake, lib=_library)
quantized_linear = torch.ops.windlass.quantized_linear.default
