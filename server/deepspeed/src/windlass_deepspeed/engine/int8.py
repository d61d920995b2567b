"""Weights in 8 bits, by DeepSpeed's own quantizer: stored in bytes, widened when a layer computes.

The weights are narrowed after DeepSpeed split them, so each process narrows its own part of every layer. The groups lie
along the outputs: groups along the inputs would send DeepSpeed to a CUDA kernel that it compiles when it is first used,
and this image has no compiler.
"""

from __future__ import annotations

import torch
from deepspeed.inference.quantization.utils import DeQuantizer, Quantizer
from deepspeed.module_inject.layers import LinearAllreduce, LinearLayer
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

GROUP_SIZES = (64, 32, 16, 8)
KEPT_WIDE = ("lm_head", "embed_out", "output_layer")
"""The last layer: few of the weights, and the most to lose."""
LAYERS = (nn.Linear, LinearLayer, LinearAllreduce)
"""Whole layers, and the parts that DeepSpeed's tensor parallelism makes of them."""


class Narrow(nn.Module):  # type: ignore[misc,unused-ignore]
    """A weight that is kept as bytes, with a scale and a least value for each group."""

    def __init__(self, group_size: int, dtype: torch.dtype) -> None:
        super().__init__()
        config = {"num_bits": 8, "group_size": group_size, "group_dim": 0, "symmetric": False}
        self._quantizer, self._dequantizer = Quantizer(config), DeQuantizer(config, dtype)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is kept of the weight."""
        kept: tuple[Tensor, Tensor, Tensor] = self._quantizer.quantize(weight.contiguous())
        return kept

    def forward(self, narrow: Tensor, scale: Tensor, least: Tensor) -> Tensor:
        """The weight as a layer computes with it."""
        wide: Tensor = self._dequantizer.dequantize(narrow, scale, least)
        return wide


def quantize(model: nn.Module) -> int:
    """Narrow the weights of the model's linear layers in place; how many there were."""
    model.requires_grad_(False)  # bytes have no gradient
    found = [layer for name, layer in model.named_modules() if isinstance(layer, LAYERS) and _is_narrowed(name, layer)]
    for layer in found:
        narrow = Narrow(group_size(layer.weight.shape[0]), layer.weight.dtype)
        register_parametrization(layer, "weight", narrow, unsafe=True)  # unsafe: what is kept has another dtype
    return len(found)


def _is_narrowed(name: str, layer: nn.Module) -> bool:
    return not name.endswith(KEPT_WIDE) and group_size(layer.weight.shape[0]) > 0


def group_size(outputs: int) -> int:
    """The largest group that divides the outputs; 0 when none does."""
    return next((size for size in GROUP_SIZES if outputs % size == 0), 0)
