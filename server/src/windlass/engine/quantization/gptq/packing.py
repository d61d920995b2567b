"""A GPTQ checkpoint's tensors: eight codes in an int32, by inputs for weights, by outputs for zero points.

The layout is that of AutoGPTQ's `gptq` format (version 1), which the engine's own reader takes.
"""

from __future__ import annotations

import torch

from windlass.engine.quantization.gptq.solve import BITS, GROUP, ZERO, Solved

EACH = 32 // BITS  # codes in an int32


def packed(solved: Solved) -> dict[str, torch.Tensor]:
    """`qweight` int32 [inputs / 8, outputs], `scales` float16 [groups, outputs], `qzeros`, `g_idx`."""
    outputs, inputs = solved.codes.shape
    groups = inputs // GROUP
    # Version 1 stores zero points one lower.
    zeros = torch.full((groups, outputs), ZERO - 1, dtype=torch.uint8)
    return {
        "qweight": _words(solved.codes.cpu().T, 0),
        "qzeros": _words(zeros, 1),
        "scales": solved.scales.cpu().T.contiguous(),
        "g_idx": torch.arange(inputs, dtype=torch.int32) // GROUP,
    }


def unpacked(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The matrix [outputs, inputs] of such tensors, float32, by their own zero points and groups."""
    codes, zeros = _codes(tensors["qweight"], 0), _codes(tensors["qzeros"], 1) + 1
    group = tensors["g_idx"].long()
    return ((codes - zeros[group]).float() * tensors["scales"].float()[group]).T.contiguous()


def _words(codes: torch.Tensor, dim: int) -> torch.Tensor:
    """int32 of eight codes along `dim`, the first in the lowest bits."""
    parts = codes.to(torch.int64).unflatten(dim, (-1, EACH))
    shifts = torch.arange(EACH).mul(BITS).view([EACH if one == dim + 1 else 1 for one in range(parts.dim())])
    whole = (parts << shifts).sum(dim + 1)
    return torch.where(whole >= 1 << 31, whole - (1 << 32), whole).to(torch.int32).contiguous()


def _codes(words: torch.Tensor, dim: int) -> torch.Tensor:
    """int64 codes of such words."""
    shifts = torch.arange(EACH).mul(BITS).view([EACH if one == dim + 1 else 1 for one in range(words.dim() + 1)])
    parts = words.to(torch.int64).unsqueeze(dim + 1) >> shifts & (1 << BITS) - 1
    return parts.flatten(dim, dim + 1)
