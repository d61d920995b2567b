"""Weights in 8 bits, by DeepSpeed's own quantized layer: stored in bytes, widened when a layer computes.

The groups lie along the outputs. Groups along the inputs would send DeepSpeed to a CUDA kernel that it compiles when
it is first used, and this image has no compiler.
"""

from __future__ import annotations

from deepspeed.inference.quantization.layers import QuantizedLinear, quantized_weight_registry
from deepspeed.inference.quantization.utils import recursive_setattr
from torch import nn

GROUP_SIZES = (64, 32, 16, 8)
KEPT_WIDE = ("lm_head", "embed_out", "output_layer")
"""The last layer: few of the weights, and the most to lose."""


def quantize(model: nn.Module) -> int:
    """Exchange the model's linear layers in place; how many there were."""
    found = [
        (name, layer)
        for name, layer in model.named_modules()
        if type(layer) is nn.Linear and not name.endswith(KEPT_WIDE) and group_size(layer.out_features)
    ]
    for name, layer in found:
        config = {"num_bits": 8, "group_size": group_size(layer.out_features), "group_dim": 0, "symmetric": False}
        recursive_setattr(model, name, QuantizedLinear(config, layer))
        quantized_weight_registry.clear()  # it keeps weights alive by id, for layers that share one
    return len(found)


def group_size(outputs: int) -> int:
    """The largest group that divides the outputs; 0 when none does."""
    return next((size for size in GROUP_SIZES if outputs % size == 0), 0)
