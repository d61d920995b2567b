"""`--quantization fp8` in vLLM: its online `fp8_per_channel` with our product, and an output head of its own in FP8.

What is quantized and how is vLLM's, mixture-of-experts layers included; so is all of it where our kernel does not go.
"""

from __future__ import annotations

from typing import Any

import torch
import vllm.envs
from vllm.config import get_current_vllm_config
from vllm.config.quantization import resolve_quantization_config
from vllm.model_executor.kernels.linear.scaled_mm.cutlass import CutlassFP8ScaledMMLinearKernel
from vllm.model_executor.layers.fused_moe.router.gate_linear import GateLinear
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.layers.quantization.online.base import OnlineQuantizationConfig
from vllm.model_executor.layers.quantization.online.fp8 import Fp8PtpcOnlineLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

from windlass.engine.quantization import fuse
from windlass.engine.quantization.config import head_is_quantized
from windlass.engine.quantization.fp8.product import X_TYPES, product, takes
from windlass.engine.quantization.methods import METHODS

METHOD = METHODS["fp8"]


class Fp8Config(OnlineQuantizationConfig):  # type: ignore[misc]  # the engine has no types here
    """vLLM's `fp8_per_channel` under a name of its own."""

    def __init__(self) -> None:
        super().__init__(resolve_quantization_config("fp8_per_channel", None))

    @classmethod
    def get_name(cls) -> str:
        """As vLLM is told."""
        return METHOD.engine

    @classmethod
    def get_min_capability(cls) -> int:
        """Ten times the least compute capability."""
        return METHOD.capability

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Fp8Config:
        """Refuse: a checkpoint that names a method is quantized already."""
        raise ValueError(f"{METHOD.name} quantizes an unquantized checkpoint; this one says {config}")

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> QuantizeMethodBase | None:
        """Ours for a linear layer and for an output head of its own; vLLM's for the rest."""
        fuse.enable(get_current_vllm_config())
        if isinstance(layer, ParallelLMHead):
            return Fp8Linear() if head_is_quantized(get_current_vllm_config().model_config) else None
        found = super().get_quant_method(layer, prefix)
        return Fp8Linear() if type(found) is Fp8PtpcOnlineLinearMethod else found


class Fp8Linear(Fp8PtpcOnlineLinearMethod):  # type: ignore[misc]
    """`weight` E4M3 [inputs, outputs], its columns contiguous, and `weight_scale` float32 [outputs, 1], as vLLM's."""

    def __init__(self) -> None:
        super().__init__()
        self.is_own = False  # whether our product takes the layer

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """As vLLM, and see whether our product takes what it left."""
        super().process_weights_after_loading(layer)
        given = layer.input_size_per_partition, layer.output_size_per_partition
        self.is_own = (
            isinstance(self.fp8_linear, CutlassFP8ScaledMMLinearKernel)
            and self.input_dtype in X_TYPES
            and not vllm.envs.VLLM_BATCH_INVARIANT  # our choice of a kernel depends on the batch
            and not isinstance(layer, GateLinear)  # it runs beside shared experts, and our workspace is one for all
            and tuple(layer.weight.shape) == given  # vLLM has not padded it
            and takes(layer.weight)
        )

    def apply(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """x [..., inputs] to [..., outputs]."""
        other_types = x.dtype != self.input_dtype or (bias is not None and bias.dtype != x.dtype)
        if not self.is_own or other_types:
            return super().apply(layer, x, bias)
        return product(x, layer.weight, layer.weight_scale, bias)
