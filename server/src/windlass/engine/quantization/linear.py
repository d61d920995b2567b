"""A linear layer of vLLM whose weight is quantized the moment its last part is loaded.

The weight is declared on the meta device; vLLM makes it real, loads it and calls `process_weights_after_loading` layer
by layer, so that one layer at a time is there in full.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import Parameter
from vllm.model_executor.layers.linear import LinearMethodBase
from vllm.model_executor.model_loader.reload.layerwise import initialize_online_processing
from vllm.model_executor.parameter import ModelWeightParameter

from windlass.engine.quantization.layout import Packed, empty, pack
from windlass.engine.quantization.product import product


class QuantizedLinear(LinearMethodBase):  # type: ignore[misc]  # the engine has no types here
    """NF4 (4 bits) or INT8 (8 bits) weights, activations as they are."""

    def __init__(self, bits: int, *, is_kept: bool = False) -> None:
        self.bits = bits
        self.uses_meta_device = not is_kept

    def create_weights(  # noqa: PLR0913  vLLM's own signature
        self,
        layer: torch.nn.Module,
        input_size_per_partition: int,
        output_partition_sizes: list[int],
        input_size: int,
        output_size: int,
        params_dtype: torch.dtype,
        *,
        weight_loader: Callable[..., None],
        **_: object,
    ) -> None:
        """Declare the weight [outputs, inputs] of this rank."""
        layer.logical_widths = output_partition_sizes
        layer.input_size_per_partition = input_size_per_partition
        layer.output_size_per_partition = sum(output_partition_sizes)
        layer.orig_dtype = params_dtype
        shape = sum(output_partition_sizes), input_size_per_partition
        if not self.uses_meta_device:
            self._hold(layer, empty(*shape, self.bits, torch.get_default_device()))
            return
        unmade = torch.empty(shape, dtype=params_dtype, device="meta")
        weight = ModelWeightParameter(data=unmade, input_dim=1, output_dim=0, weight_loader=weight_loader)
        layer.register_parameter("weight", weight)
        initialize_online_processing(layer)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Put `qweight` and `scales` in the weight's place; vLLM may call it twice."""
        if "weight" not in layer._parameters:
            return
        packed = pack(layer.weight.data, self.bits)
        del layer._parameters["weight"]
        self._hold(layer, packed)

    def _hold(self, layer: torch.nn.Module, packed: Packed) -> None:
        layer.register_parameter("qweight", Parameter(packed.qweight, requires_grad=False))
        layer.register_parameter("scales", Parameter(packed.scales, requires_grad=False))
        layer._already_called_process_weights_after_loading = True  # vLLM's own mark

    def apply(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """x [..., inputs] to [..., outputs]."""
        rows = layer.output_size_per_partition
        return product(x, layer.qweight, layer.scales, bias, self.bits, rows)

    def packed(self, layer: torch.nn.Module) -> Packed:
        """What the layer holds, for those who read it back."""
        return Packed(layer.qweight, layer.scales)
