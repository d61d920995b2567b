"""How quantized weights lie in GPU memory: in tiles of 16 rows by 64 columns, in the order of the kernel's fragments.

Lane 4 g + t of a warp holds of each tile, for each of its 4 products of 16 columns, the rows g and g + 8 and the
columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9: operand A of mma.m16n8k16, and of wgmma. The files in `kernels` read this order.
Rows are a multiple of 16, columns of 64.
"""

from __future__ import annotations

import torch

TILE_ROWS, TILE_COLUMNS = 16, 64


def fits(rows: int, columns: int) -> bool:
    """Whether the fused kernel takes such a matrix."""
    return rows % TILE_ROWS == 0 and columns % TILE_COLUMNS == 0


def _split(matrix: torch.Tensor) -> torch.Tensor:
    """Rows as (tile, half, g), columns as (tile, product, pair, t, member)."""
    rows, columns = matrix.shape
    return matrix.reshape(rows // TILE_ROWS, 2, 8, columns // TILE_COLUMNS, 4, 2, 4, 2)


def pack_nf4(codes: torch.Tensor) -> torch.Tensor:
    """uint8 [rows / 16, columns / 64, 512]: a byte is two neighbours of a row, the left one in the low bits."""
    parts = _split(codes)
    pairs = parts[..., 0] | parts[..., 1] << 4
    return pairs.permute(0, 3, 2, 6, 4, 5, 1).reshape(*_tiles(codes), 512)


def unpack_nf4(packed: torch.Tensor) -> torch.Tensor:
    """The inverse: codes uint8 [rows, columns]."""
    down, across, _ = packed.shape
    pairs = packed.reshape(down, across, 8, 4, 4, 2, 2).permute(0, 6, 2, 1, 4, 5, 3)
    return torch.stack((pairs & 15, pairs >> 4), -1).reshape(down * TILE_ROWS, across * TILE_COLUMNS)


def pack_nf4_scales(scales: torch.Tensor) -> torch.Tensor:
    """float16 [rows / 16, columns / 64, 16]: of a tile, the scales of the rows g and g + 8 side by side."""
    rows, blocks = scales.shape
    parts = scales.reshape(rows // TILE_ROWS, 2, 8, blocks)
    return parts.permute(0, 3, 2, 1).reshape(rows // TILE_ROWS, blocks, TILE_ROWS)


def unpack_nf4_scales(packed: torch.Tensor) -> torch.Tensor:
    """The inverse: float16 [rows, columns / 64]."""
    down, blocks, _ = packed.shape
    return packed.reshape(down, blocks, 8, 2).permute(0, 3, 2, 1).reshape(down * TILE_ROWS, blocks)


def pack_int8(quantized: torch.Tensor) -> torch.Tensor:
    """uint8 [rows / 16, columns / 64, 1024]: weight + 128, so that a byte and 0x64 make a float16.

    The first two products of every lane come before the last two, so that a warp reads 512 bytes in a row.
    """
    shifted = (quantized.to(torch.int16) + 128).to(torch.uint8)
    parts = _split(shifted).unflatten(4, (2, 2))
    return parts.permute(0, 3, 4, 2, 7, 5, 6, 1, 8).reshape(*_tiles(quantized), 1024)


def unpack_int8(packed: torch.Tensor) -> torch.Tensor:
    """The inverse: int8 [rows, columns]."""
    down, across, _ = packed.shape
    parts = packed.reshape(down, across, 2, 8, 4, 2, 2, 2, 2).permute(0, 7, 3, 1, 2, 5, 6, 4, 8)
    return (parts.to(torch.int16) - 128).to(torch.int8).reshape(down * TILE_ROWS, across * TILE_COLUMNS)


def _tiles(matrix: torch.Tensor) -> tuple[int, int]:
    return matrix.shape[0] // TILE_ROWS, matrix.shape[1] // TILE_COLUMNS
