"""GPTQ of one matrix: rounds a column at a time and moves each column's error into those that are still to come.

Source: Frantar, Ashkboos, Hoefler, Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers" (2022), algorithm 1; columns in their own order (`desc_act` false), symmetric, a scale for each group.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

BITS, GROUP = 4, 128
ZERO = 1 << BITS - 1  # the code of 0
LARGEST = (1 << BITS) - 1
HALF_RANGE = LARGEST / 2  # codes on both sides of the middle, so that the largest magnitude has one
DAMPING = 0.01  # of the mean of the diagonal, as in the paper


@dataclass(frozen=True, slots=True)
class Solved:
    """`codes` uint8 [outputs, inputs], 0 to 15; `scales` float16 [outputs, groups]."""

    codes: torch.Tensor
    scales: torch.Tensor

    def weight(self) -> torch.Tensor:
        """The matrix that the engine multiplies with, float32."""
        return (self.codes.float() - ZERO) * self.scales.float().repeat_interleave(GROUP, 1)


def solve(weight: torch.Tensor, hessian: torch.Tensor) -> Solved:
    """Round [outputs, inputs] for inputs whose products X^T X are `hessian` [inputs, inputs]."""
    left = weight.detach().float().clone()
    left[:, hessian.diagonal() == 0] = 0  # inputs that no sample had
    inverse = _inverse_root(hessian)
    codes = torch.empty(left.shape, dtype=torch.uint8, device=left.device)
    scales = torch.empty(len(left), left.shape[1] // GROUP, dtype=torch.float16, device=left.device)
    for number, start in enumerate(range(0, left.shape[1], GROUP)):
        end = start + GROUP
        part, within = left[:, start:end], inverse[start:end, start:end]
        scales[:, number] = _scales(part)
        codes[:, start:end], errors = _rounded(part, scales[:, number].float(), within)
        left[:, end:] -= errors @ inverse[start:end, end:]
    return Solved(codes, scales)


def nearest(weight: torch.Tensor) -> Solved:
    """The same without looking at inputs: every weight to the nearest code."""
    return solve(weight, torch.eye(weight.shape[1], device=weight.device))


def _scales(part: torch.Tensor) -> torch.Tensor:
    """float16 [outputs]; a group of zeros has the scale 1."""
    largest = part.abs().amax(1) / HALF_RANGE
    return torch.where(largest < torch.finfo(torch.float16).tiny, 1, largest).to(torch.float16)


def _rounded(part: torch.Tensor, scales: torch.Tensor, inverse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of one group, and each column's error by the weight that later columns take of it."""
    part = part.clone()
    codes = torch.empty(part.shape, dtype=torch.uint8, device=part.device)
    errors = torch.empty_like(part)
    for column in range(part.shape[1]):
        code = ((part[:, column] / scales).round() + ZERO).clamp(0, LARGEST)
        error = (part[:, column] - (code - ZERO) * scales) / inverse[column, column]
        part[:, column:] -= error.unsqueeze(1) * inverse[column, column:]
        codes[:, column], errors[:, column] = code.to(torch.uint8), error
    return codes, errors


def _inverse_root(hessian: torch.Tensor) -> torch.Tensor:
    """The upper Cholesky factor of the inverse; damped until there is one."""
    damped = hessian.float().clone()
    diagonal = damped.diagonal()
    diagonal[diagonal == 0] = 1
    mean = diagonal.mean()
    for _ in range(10):
        diagonal += DAMPING * mean
        root, failed = torch.linalg.cholesky_ex(damped)
        if not failed.item():
            return torch.linalg.cholesky(torch.cholesky_inverse(root), upper=True)
    raise ValueError("the samples' products have no inverse; give other samples")
