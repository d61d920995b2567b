"""How strongly to smooth one group of linear layers: the strength whose INT8 product is nearest to the exact one.

Source: Xiao, Lin, Seznec, Wu, Demouth, Han, "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large
Language Models" (2022), equation 4, which moves range from activations into weights by one exponent for the whole
model. Here each group has its own, and may have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from windlass.engine.quantization import int8

STRENGTHS = tuple(step / 20 for step in range(1, 21))
_LEAST = 1e-5


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention's outputs: (key/value head, head that shares it, place), all sharers of one value having one scale."""

    sharing: int
    size: int

    def largest(self, values: torch.Tensor) -> torch.Tensor:
        """The largest of those that share, for each of them [inputs]."""
        parts = values.unflatten(0, (-1, self.sharing, self.size))
        return parts.amax(1, keepdim=True).expand_as(parts).flatten()

    def once(self, values: torch.Tensor) -> torch.Tensor:
        """One for each value [key/value heads * size]."""
        return values.unflatten(0, (-1, self.sharing, self.size))[:, 0].flatten()


@dataclass(frozen=True, slots=True)
class Choice:
    """The strength (None: not smoothed), its scales [inputs], and the relative error with it and without smoothing."""

    strength: float | None
    scales: torch.Tensor
    error: float
    plain_error: float


def choose(
    inputs: torch.Tensor,
    largest: torch.Tensor,
    weights: Sequence[torch.Tensor],
    heads: Heads | None = None,
    strengths: Sequence[float] = STRENGTHS,
) -> Choice:
    """Search for layers [outputs, inputs] that share `inputs` [tokens, inputs].

    `largest` is every input's largest magnitude over all tokens; `heads`, where several inputs come from one value.
    """
    inputs = inputs.float()
    matrices = [weight.float() for weight in weights]
    reach = torch.stack([matrix.abs().amax(0) for matrix in matrices]).amax(0)
    exact = [inputs @ matrix.T for matrix in matrices]
    whole = sum(float(product.square().sum()) for product in exact)
    best = Choice(None, torch.ones_like(largest), 0.0, 0.0)
    plain = best_error = _error(inputs, matrices, exact, best.scales)
    for strength in strengths:
        scales = smoothing(largest, reach, strength, heads)
        found = _error(inputs, matrices, exact, scales)
        if found < best_error:
            best, best_error = Choice(strength, scales, 0.0, 0.0), found
    return Choice(best.strength, best.scales, best_error / max(whole, _LEAST), plain / max(whole, _LEAST))


def smoothing(largest: torch.Tensor, reach: torch.Tensor, strength: float, heads: Heads | None = None) -> torch.Tensor:
    """Activations are divided by these scales [inputs], weights multiplied: largest^strength / reach^(1 - strength)."""
    largest, reach = (part.float().clamp_min(_LEAST) for part in (largest, reach))
    if heads:
        largest, reach = heads.largest(largest), heads.largest(reach)
    scales: torch.Tensor = (largest**strength / reach ** (1 - strength)).clamp_min(_LEAST)
    return scales


def _error(
    inputs: torch.Tensor, matrices: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], scales: torch.Tensor
) -> float:
    """The squared distance of the INT8 products."""
    rounded = through_int8(inputs / scales)
    found = (rounded @ through_int8(matrix * scales).T for matrix in matrices)
    return sum(float((product - wanted).square().sum()) for product, wanted in zip(found, exact, strict=True))


def through_int8(rows: torch.Tensor) -> torch.Tensor:
    """What INT8 with a scale for each row leaves of a matrix."""
    return int8.dequantize(*int8.quantize(rows), torch.float32)
