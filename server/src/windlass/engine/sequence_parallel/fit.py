"""What cannot be served with prompts split over GPUs, in the engine's own configuration. Pure.

`windlass run` refuses the same before a GPU is taken, where the start command and the model's files show it. This is
for what they do not show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLAG = "--sequence-parallel-size"


def refusal(config: Any, *, supports_mm_inputs: bool) -> str | None:  # noqa: ANN401 - the engine has no types here
    """The first reason in one sentence; None for what can be served."""
    if supports_mm_inputs:
        return f"{FLAG} splits text alone, and the model takes images or sound; leave the flag out"
    return next((sentence for rule, sentence in RULES if rule(config)), None)


def _drafts(config: Any) -> bool:  # noqa: ANN401 - the engine's
    return config.speculative_config is not None


def _whole_graphs(config: Any) -> bool:  # noqa: ANN401 - the engine's
    mode = config.compilation_config.cudagraph_mode
    return bool(mode.has_full_cudagraphs() and not mode.separate_routine())


def _state_space(config: Any) -> bool:  # noqa: ANN401 - the engine's
    return bool(config.model_config.is_hybrid or config.model_config.is_attention_free)


RULES: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (
        lambda config: config.model_config.use_mla,
        f"{FLAG} is for grouped-query and multi-head attention; leave it out for this model's latent attention",
    ),
    (
        lambda config: config.model_config.is_encoder_decoder,
        f"{FLAG} splits decoders alone; leave it out for this encoder-decoder model",
    ),
    (_state_space, f"{FLAG} splits attention alone, and this model has state-space layers; leave the flag out"),
    (
        lambda config: config.model_config.is_moe,
        f"{FLAG} has not been run with a mixture of experts; leave the flag out for this model",
    ),
    (lambda config: config.lora_config is not None, f"{FLAG} and LoRA adapters exclude each other; leave one out"),
    (_drafts, f"{FLAG} and drafting exclude each other; leave one of them out"),
    (
        lambda config: config.kv_transfer_config is not None,
        f"{FLAG} and a KV connector exclude each other; leave one of them out",
    ),
    (
        lambda config: config.parallel_config.decode_context_parallel_size > 1,
        f"{FLAG} keeps the whole KV cache on every rank; leave --decode-context-parallel-size out",
    ),
    (
        _whole_graphs,
        f"{FLAG} needs CUDA graphs of decoding apart from prompts; set cudagraph_mode to FULL_AND_PIECEWISE",
    ),
)
"""A question about the engine's configuration, and the sentence for yes."""
