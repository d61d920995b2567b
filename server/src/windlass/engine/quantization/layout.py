"""Quantized weights as a layer holds them: `qweight` and `scales`, for a GPU in tiles, for a CPU row by row.

On a CPU the codes stay in the order of the matrix, so that dequantizing is a look-up; both forms hold the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from windlass.engine.quantization import int8, nf4, packing
from windlass.engine.quantization.codebook import BLOCK

_ROWS_AT_ONCE = 4096  # whole tiles


@dataclass(frozen=True, slots=True)
class Packed:
    """`qweight` uint8; `scales` float16 for each block (NF4) or float32 for each row (INT8)."""

    qweight: torch.Tensor
    scales: torch.Tensor


def pack(weight: torch.Tensor, bits: int, *, tiled: bool | None = None) -> Packed:
    """Quantize [rows, columns]; in tiles, as on a GPU, rows and columns are padded with zeros to whole tiles.

    A block of rows at a time, so that beside the weight little more than the result is held.
    """
    in_tiles = weight.is_cuda if tiled is None else tiled
    rows, columns = weight.shape
    packed = empty(rows, columns, bits, weight.device, tiled=in_tiles)
    unit = packing.TILE_ROWS if in_tiles else 1
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = weight[start : start + _ROWS_AT_ONCE]
        qweight, scales = _packed(pad(part, (0, -columns % BLOCK, 0, -len(part) % unit)), bits, in_tiles)
        at = start // unit
        packed.qweight[at : at + len(qweight)] = qweight
        at = start if bits == 8 else at
        packed.scales[at : at + len(scales)] = scales
    return packed


def _packed(weight: torch.Tensor, bits: int, tiled: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and columns that need no padding."""
    if bits == 8:
        quantized, scales = int8.quantize(weight)
        return packing.pack_int8(quantized) if tiled else quantized.view(torch.uint8), scales
    found, blocks = nf4.quantize(weight)
    if tiled:
        return packing.pack_nf4(found), packing.pack_nf4_scales(blocks)
    return found[:, ::2] | found[:, 1::2] << 4, blocks


def empty(rows: int, columns: int, bits: int, device: torch.device, *, tiled: bool | None = None) -> Packed:
    """What `pack` makes of a matrix of this shape, with nothing in it yet."""
    blocks = -(-columns // BLOCK)
    kind = torch.float32 if bits == 8 else torch.float16
    if not (device.type == "cuda" if tiled is None else tiled):
        qweight = torch.empty(rows, blocks * BLOCK * bits // 8, dtype=torch.uint8, device=device)
        return Packed(qweight, torch.empty((rows,) if bits == 8 else (rows, blocks), dtype=kind, device=device))
    down = -(-rows // packing.TILE_ROWS)
    tile_bytes = packing.TILE_ROWS * packing.TILE_COLUMNS * bits // 8
    shape = (down * packing.TILE_ROWS,) if bits == 8 else (down, blocks, packing.TILE_ROWS)
    qweight = torch.empty(down, blocks, tile_bytes, dtype=torch.uint8, device=device)
    return Packed(qweight, torch.empty(shape, dtype=kind, device=device))


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
    if bits == 4 and packed.qweight.dim() == 2 and not packed.qweight.is_cuda:
        return nf4.dequantize_pairs(packed.qweight, packed.scales).to(dtype)
    found, scales = codes(packed, bits)
    if bits == 8:
        return int8.dequantize(found, scales, dtype)
    return nf4.dequantize(found, scales).to(dtype)
