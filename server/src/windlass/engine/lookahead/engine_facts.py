"""What the engine's configuration knows of the model, for the cache's options. Called by both integrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.engine.lookahead.drafting import EngineFacts

if TYPE_CHECKING:
    from vllm.config import VllmConfig


def engine_facts(config: VllmConfig) -> EngineFacts:
    """What the engine knows of the model."""
    model = config.model_config
    eos = getattr(model.hf_text_config, "eos_token_id", None)
    return EngineFacts(
        str(model.model),
        model.get_vocab_size(),
        model.max_model_len,
        eos[0] if isinstance(eos, list) and eos else eos if isinstance(eos, int) else None,
        str(config.parallel_config.data_parallel_rank),
    )
