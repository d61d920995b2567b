"""Quantized weights as a layer holds them: `qweight` and `scales`, for a GPU in tiles, for a CPU row by row.

On a CPU the codes stay in the order of the matrix, so that dequantizing is a look-up; both forms hold the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from windlass.quantization import int8, nf4, packing
from windlass.quantization.codebook import BLOCK


@dataclass(frozen=True, slots=True)
class Packed:
    """`qweight` uint8; `scales` float16 for each block (NF4) or float32 for each row (INT8)."""

    qweight: torch.Tensor
    scales: torch.Tensor


def pack(weight: torch.Tensor, bits: int) -> Packed:
    """Quantize [rows, columns]; on a GPU rows and columns are padded with zeros to whole tiles."""
    rows, columns = weight.shape
    tiled = weight.is_cuda
    down = -rows % packing.TILE_ROWS if tiled else 0
    weight = pad(weight, (0, -columns % BLOCK, 0, down))
    if bits == 8:
        quantized, scales = int8.quantize(weight)
        return Packed(packing.pack_int8(quantized) if tiled else quantized.view(torch.uint8), scales)
    codes, blocks = nf4.quantize(weight)
    if tiled:
        return Packed(packing.pack_nf4(codes), packing.pack_nf4_scales(blocks))
    return Packed(codes[:, ::2] | codes[:, 1::2] << 4, blocks)


def codes(packed: Packed, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the quantizer made: codes or int8 values [rows, columns], and scales by row; padding is still there."""
    tiled = packed.qweight.dim() == 3
    if bits == 8:
        values = packing.unpack_int8(packed.qweight) if tiled else packed.qweight.view(torch.int8)
        return values, packed.scales
    if tiled:
        return packing.unpack_nf4(packed.qweight), packing.unpack_nf4_scales(packed.scales)
    pairs = packed.qweight
    return torch.stack((pairs & 15, pairs >> 4), -1).flatten(1), packed.scales


def unpack(packed: Packed, bits: int, dtype: torch.dtype) -> torch.Tensor:
    """The matrix that the layer multiplies with, exactly as the kernel rounds it, then in `dtype`."""
    found, scales = codes(packed, bits)
    if bits == 8:
        return int8.dequantize(found, scales, dtype)
    return nf4.dequantize(found, scales).to(dtype)
