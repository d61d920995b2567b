"""`--quantization smoothquant` in vLLM: INT8 weights of our file, INT8 activations by token, vLLM's own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from vllm.model_executor.layers.fused_moe import RoutedExperts
from vllm.model_executor.layers.linear import LinearBase, LinearMethodBase
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig, QuantizeMethodBase
from vllm.model_executor.layers.quantization.compressed_tensors.schemes import CompressedTensorsW8A8Int8
from vllm.platforms import current_platform
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

from windlass.engine.quantization.methods import METHODS

METHOD = METHODS["smoothquant"]


class SmoothQuantConfig(QuantizationConfig):  # type: ignore[misc]  # the engine has no types here
    """The file says which numbers; nothing is read from the checkpoint's own configuration."""

    @classmethod
    def get_name(cls) -> str:
        """As in `--quantization`."""
        return METHOD.name

    @classmethod
    def get_supported_act_dtypes(cls) -> list[torch.dtype]:
        """Dtypes of the layers' inputs and outputs on this platform."""
        names = METHOD.cpu_dtypes if current_platform.is_cpu() else METHOD.dtypes
        return [getattr(torch, name) for name in names]

    @classmethod
    def get_min_capability(cls) -> int:
        """Ten times the least compute capability."""
        return METHOD.capability

    @staticmethod
    def get_config_filenames() -> list[str]:
        """No file is needed."""
        return []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SmoothQuantConfig:
        """Refuse: a checkpoint that names a method is quantized already."""
        raise ValueError(f"smoothquant reads {SMOOTHQUANT_FILE}; this checkpoint says {config}")

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> QuantizeMethodBase | None:
        """W8A8 for every linear layer; the output head stays as it is."""
        if isinstance(layer, RoutedExperts):
            raise ValueError(
                f"--quantization smoothquant has no mixture-of-experts layers ({prefix}); take fp8, or none"
            )
        return SmoothQuantLinear() if isinstance(layer, LinearBase) else None


class SmoothQuantLinear(LinearMethodBase):  # type: ignore[misc]  # the engine has no types here
    """`weight` INT8 [outputs, inputs], `weight_scale` float32 [outputs, 1]; activations are quantized by token."""

    def __init__(self) -> None:
        self._scheme = CompressedTensorsW8A8Int8("channel", is_static_input_scheme=False, input_symmetric=True)

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
        """Declare weight and scales of this rank."""
        layer.input_size_per_partition = input_size_per_partition
        layer.output_size_per_partition = sum(output_partition_sizes)
        layer.orig_dtype = params_dtype
        self._scheme.create_weights(
            layer=layer,
            output_partition_sizes=output_partition_sizes,
            input_size_per_partition=input_size_per_partition,
            params_dtype=params_dtype,
            weight_loader=weight_loader,
        )

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Into the order of the kernel that this platform has."""
        self._scheme.process_weights_after_loading(layer)

    def apply(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """x [..., inputs] to [..., outputs]."""
        out: torch.Tensor = self._scheme.apply_weights(layer, x, bias)
        return out
