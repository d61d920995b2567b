"""vLLM's entry point `vllm.general_plugins`: registers our methods and our loader in every process of the engine.

vLLM calls `register` in the front end, the engine core and each worker, and perhaps twice.
"""

from __future__ import annotations

import functools


@functools.cache
def register() -> None:
    """Make vLLM know our methods and `--load-format windlass`; vLLM is imported here and not before."""
    from vllm.model_executor.layers.quantization import register_quantization_config
    from vllm.model_executor.layers.quantization.base_config import QuantizationConfig
    from vllm.model_executor.model_loader import register_model_loader

    from windlass.engine.quantization.config import CONFIGS
    from windlass.engine.quantization.fp8.config import Fp8Config
    from windlass.engine.quantization.loader import Loader
    from windlass.engine.quantization.smoothquant.config import SmoothQuantConfig

    configs: tuple[type[QuantizationConfig], ...] = (*CONFIGS, Fp8Config, SmoothQuantConfig)
    for config in configs:
        register_quantization_config(config.get_name())(config)
    register_model_loader("windlass")(Loader)
