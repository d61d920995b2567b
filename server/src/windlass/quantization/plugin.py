"""vLLM's entry point `vllm.general_plugins`: registers `ifq` and `ifq_nf4` in every process of the engine.

vLLM calls `register` in the front end, the engine core and each worker, and perhaps twice.
"""

from __future__ import annotations

import functools


@functools.cache
def register() -> None:
    """Make vLLM know our methods; vLLM is imported here and not before."""
    from vllm.model_executor.layers.quantization import register_quantization_config

    from windlass.quantization.config import CONFIGS

    for config in CONFIGS:
        register_quantization_config(config.get_name())(config)
