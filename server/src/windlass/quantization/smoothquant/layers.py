"""Which linear layers of a decoder share an input, and what stands before them and takes the smoothing in.

A norm is divided by the scales, or the rows of the layer before: nothing is added to the model that serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from windlass.quantization import int8
from windlass.quantization.smoothquant.search import Choice, Heads

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""Decoders that are built as `GROUPS` says."""


@dataclass(frozen=True, slots=True)
class Group:
    """Linear layers with one input, and the layer whose output that is up to a factor."""

    before: str
    layers: tuple[str, ...]
    over_heads: bool = False


GROUPS = (
    Group("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    Group("self_attn.v_proj", ("self_attn.o_proj",), over_heads=True),
    Group("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
    Group("mlp.up_proj", ("mlp.down_proj",)),
)


def smoothed(
    tensors: Mapping[str, torch.Tensor], choices: Mapping[str, Choice], heads: Heads
) -> dict[str, torch.Tensor]:
    """A decoder layer's tensors with the chosen scales taken in, float32; `choices` by the layer before."""
    found = {name: tensor.float().clone() for name, tensor in tensors.items()}
    for group in GROUPS:
        scales = choices[group.before].scales
        for layer in group.layers:
            found[f"{layer}.weight"] *= scales
        outputs = heads.once(scales) if group.over_heads else scales
        before = found[f"{group.before}.weight"]
        before /= outputs.unsqueeze(1) if before.dim() == 2 else outputs
        if f"{group.before}.bias" in found:
            found[f"{group.before}.bias"] /= outputs
    return found


def quantized(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Linear layers as INT8 `weight` and float32 `weight_scale` [outputs, 1]; the rest as it is."""
    linear = {f"{layer}.weight" for group in GROUPS for layer in group.layers}
    found: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if name not in linear:
            found[name] = tensor
            continue
        found[name], scales = int8.quantize(tensor)
        found[f"{name}_scale"] = scales.unsqueeze(1)
    return found
