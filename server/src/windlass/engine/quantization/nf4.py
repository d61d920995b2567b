"""NF4 of a weight matrix, exactly: the nearest of sixteen values times a float16 scale for 64 weights of a row.

The loader quantizes with it, and the CPU path and the tests dequantize with it. Shapes are [rows, columns]; the
columns are the inputs of the layer and are a multiple of 64 (`padded` adds zeros).
"""

from __future__ import annotations

import functools

import torch

from windlass.engine.quantization.codebook import BLOCK, NF4_FLOAT16

_ROWS_AT_ONCE = 4096  # bounds the float32 copy to 4096 rows


def padded(weight: torch.Tensor) -> torch.Tensor:
    """The matrix with zero columns added up to a multiple of 64."""
    return torch.nn.functional.pad(weight, (0, -weight.shape[1] % BLOCK))


def values(device: torch.device | str = "cpu") -> torch.Tensor:
    """The codebook, ascending, float16."""
    return torch.tensor(NF4_FLOAT16, dtype=torch.float16, device=device)


def quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes uint8 [rows, columns] in 0..15, and the blocks' largest magnitudes float16 [rows, columns / 64].

    A tie between two values takes the lower one. A magnitude past float16's range is taken as its largest value.
    """
    rows, columns = weight.shape
    codes = torch.empty(rows, columns, dtype=torch.uint8, device=weight.device)
    scales = torch.empty(rows, columns // BLOCK, dtype=torch.float16, device=weight.device)
    book = values(weight.device).float()
    borders = (book[1:] + book[:-1]) / 2
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        blocks = weight[part].float().unflatten(1, (-1, BLOCK))
        scales[part] = blocks.abs().amax(-1).clamp_max(torch.finfo(torch.float16).max).half()
        scale = scales[part].float().unsqueeze(-1)
        shares = blocks / torch.where(scale == 0, 1, scale)
        codes[part] = torch.bucketize(shares, borders).to(torch.uint8).flatten(1)
    return codes, scales


def dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """float16 [rows, columns]: value times scale, rounded once; the fused kernel multiplies with these very numbers."""
    blocks = values(codes.device)[codes.long()].unflatten(1, (-1, BLOCK))
    return (blocks * scales.unsqueeze(-1)).flatten(1)


@functools.cache
def _pairs() -> torch.Tensor:
    """int32 [256]: the two float16 values that a byte stands for, those of its low bits first."""
    book, byte = values(), torch.arange(256)
    return torch.stack((book[byte & 15], book[byte >> 4]), 1).view(torch.int32).squeeze(1)


def dequantize_pairs(pairs: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The same from bytes of two codes, uint8 [rows, columns / 2], on a CPU: one look-up for two weights."""
    found = _pairs().index_select(0, pairs.flatten().int()).view(torch.float16)
    return (found.view(len(pairs), -1, BLOCK) * scales.unsqueeze(-1)).flatten(1)
