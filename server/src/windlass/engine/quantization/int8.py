"""INT8 of a weight matrix, symmetric, one float32 scale for each row (output channel)."""

from __future__ import annotations

import torch

LARGEST = 127
_ROWS_AT_ONCE = 4096


def quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 [rows, columns] in -127..127 and float32 scales [rows]; a row of zeros has the scale 1."""
    quantized = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scales = torch.empty(weight.shape[0], dtype=torch.float32, device=weight.device)
    for start in range(0, weight.shape[0], _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        rows = weight[part].float()
        largest = rows.abs().amax(1)
        # a tensor, not a number: on a GPU torch would multiply by the number's reciprocal
        scales[part] = torch.where(largest == 0, 1, largest / torch.full_like(largest, LARGEST))
        quantized[part] = (rows / scales[part].unsqueeze(1)).round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
    return quantized, scales


def dequantize(quantized: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """The matrix in `dtype`: product in float32, rounded once."""
    return (quantized.float() * scales.unsqueeze(1)).to(dtype)
