"""Groups of a decoder layer's linear layers that share an input, and the layer before that takes the smoothing in.

A norm is divided by the scales, or rows of a linear layer before: nothing is added to the model that serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from windlass.engine.quantization import int8
from windlass.engine.quantization.smoothquant.search import Choice, Heads

Tensors = dict[str, torch.Tensor]


class ScaleTarget(StrEnum):
    """How the layer before takes scales in."""

    NORM = "norm"  # its weight, and bias, are divided
    NORM_OVER_ONE = "norm over one"  # it multiplies by 1 + weight, as Gemma's does
    ROWS = "rows"  # rows of a linear layer are divided
    NOTHING = "nothing"  # there is none that can


@dataclass(frozen=True, slots=True)
class Group:
    """Linear layers with one input, and the layer whose output that is up to a factor."""

    layers: tuple[str, ...]
    before: str = ""
    takes: ScaleTarget = ScaleTarget.NOTHING
    rows: tuple[int, int] = (0, 0)  # from and to, of a linear layer
    heads: Heads | None = None  # where several inputs come from one row

    @property
    def name(self) -> str:
        """The layer before, or the first that would be smoothed."""
        return self.before or self.layers[0]


def smooth(tensors: Tensors, group: Group, scales: torch.Tensor) -> None:
    """Take the scales [inputs] of one group in; the tensors are float32 and change."""
    if group.takes is ScaleTarget.NOTHING:
        return
    for layer in group.layers:
        tensors[f"{layer}.weight"] *= scales
    weight, bias = tensors[f"{group.before}.weight"], tensors.get(f"{group.before}.bias")
    if group.takes is ScaleTarget.ROWS:
        part = slice(*group.rows)
        outputs = group.heads.once(scales) if group.heads else scales
        weight[part] /= outputs.unsqueeze(1)
        if bias is not None:
            bias[part] /= outputs
        return
    over = 1 if group.takes is ScaleTarget.NORM_OVER_ONE else 0
    weight.copy_((weight + over) / scales - over)
    if bias is not None:
        bias /= scales


def smoothed(tensors: Mapping[str, torch.Tensor], groups: Sequence[Group], choices: Mapping[str, Choice]) -> Tensors:
    """A decoder layer's tensors with the chosen scales taken in, float32; `choices` by the group's name."""
    found = {name: tensor.float().clone() for name, tensor in tensors.items()}
    for group in groups:
        smooth(found, group, choices[group.name].scales)
    return found


def quantized(tensors: Mapping[str, torch.Tensor], groups: Sequence[Group]) -> Tensors:
    """Linear layers as INT8 `weight` and float32 `weight_scale` [outputs, 1]; the rest as it is."""
    linear = {f"{layer}.weight" for group in groups for layer in group.layers}
    found: Tensors = {}
    for name, tensor in tensors.items():
        if name not in linear:
            found[name] = tensor
            continue
        found[name], scales = int8.quantize(tensor)
        found[f"{name}_scale"] = scales.unsqueeze(1)
    return found
