"""What vLLM asks a quantization method: its name, dtypes and capability, and which layer is quantized how."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import torch
from vllm.config import ModelConfig, get_current_vllm_config
from vllm.model_executor.layers.fused_moe import RoutedExperts
from vllm.model_executor.layers.linear import LinearBase
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig, QuantizeMethodBase
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.platforms import current_platform

from windlass.engine.quantization import fuse
from windlass.engine.quantization.kernels.tiling import HOPPER
from windlass.engine.quantization.linear import QuantizedLinear
from windlass.engine.quantization.methods import METHODS, Method

HEAD_BITS = 8  # four bits in the output head cost precision in every token


class OnlineConfig(QuantizationConfig):  # type: ignore[misc]  # the engine has no types here
    """A method that quantizes while it loads: nothing is read from the checkpoint's own configuration."""

    method: ClassVar[Method]

    def __init__(self) -> None:
        super().__init__()
        self.is_kept = False  # the loader has found weights that are quantized already

    @classmethod
    def get_name(cls) -> str:
        """As in `--quantization`."""
        return cls.method.name

    @classmethod
    def get_supported_act_dtypes(cls) -> list[torch.dtype]:
        """Dtypes of the activations on this platform."""
        names = cls.method.cpu_dtypes if current_platform.is_cpu() else cls.method.dtypes
        return [getattr(torch, name) for name in names]

    @classmethod
    def get_min_capability(cls) -> int:
        """Ten times the least compute capability."""
        return cls.method.capability

    @staticmethod
    def get_config_filenames() -> list[str]:
        """No file is needed."""
        return []

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> OnlineConfig:
        """Refuse: a checkpoint that names a method is quantized already."""
        raise ValueError(f"{cls.method.name} quantizes an unquantized checkpoint; this one says {config}")

    def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> QuantizeMethodBase | None:
        """Ours for a linear layer and for an output head of its own, none for embeddings and attention."""
        if current_platform.is_cuda() and current_platform.is_device_capability_family(10 * HOPPER):
            fuse.enable(get_current_vllm_config())  # elsewhere no product begins early behind what is in front
        if isinstance(layer, RoutedExperts):
            raise ValueError(
                f"--quantization {self.method.name} does not quantize mixture-of-experts layers ({prefix}); "
                "take --quantization fp8, or none"
            )
        if isinstance(layer, LinearBase):
            return QuantizedLinear(self.method.bits, is_kept=self.is_kept)
        if isinstance(layer, ParallelLMHead) and head_is_quantized(get_current_vllm_config().model_config):
            return QuantizedLinear(HEAD_BITS, is_kept=self.is_kept)
        return None


def head_is_quantized(model_config: ModelConfig) -> bool:
    """An output head that shares the embedding's matrix stays as it is: the embedding needs its rows.

    So does one of another dtype than the model's, which vLLM has unquantized heads for alone.
    """
    tied = getattr(model_config.hf_text_config, "tie_word_embeddings", False)
    is_other = model_config.head_dtype != model_config.dtype
    return not tied and not is_other and os.environ.get("VLLM_ALLOW_QUANT_LM_HEAD", "1") != "0"


def _config(method: Method) -> type[OnlineConfig]:
    return type(f"{method.name}_config", (OnlineConfig,), {"method": method})


CONFIGS = tuple(_config(METHODS[name]) for name in ("ifq", "ifq_nf4"))
