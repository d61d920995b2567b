"""Long prompts split over GPUs: which models can be served so, and what goes between the GPUs. Pure arithmetic."""

from __future__ import annotations

from windlass_sizing.model.facts import ModelFacts

ROWS_EACH_MIN = 128
"""Tokens of a prompt for each GPU below which every GPU computes all of it (`windlass.sequence_parallel.schedule`)."""
BYTES = 2  # of a value on its way: keys, values and hidden states are float16 or bfloat16
SUMS_A_LAYER = 2  # of hidden states under tensor parallelism: after attention, and after the layer's second half


def obstacle(facts: ModelFacts) -> str:
    """Why prompts of this model cannot be split over GPUs, as the end of a sentence; empty where they can."""
    if facts.latent_kv_dim:
        return "the model has latent attention, and the split is for grouped-query and multi-head attention"
    if facts.num_experts is not None:
        return "the model is a mixture of experts, which has not been run so"
    if facts.multimodal:
        return "the model takes images or sound, and the split is for text alone"
    if facts.state_bytes:
        return "the model has layers that keep a state, and the split is for attention alone"
    return ""


def sent_split(facts: ModelFacts, ranks: int) -> int:
    """Bytes that each GPU sends for a token of a prompt: its part's keys and values, to every other GPU."""
    each = 2 * facts.num_key_value_heads * facts.head_dim * BYTES * facts.num_hidden_layers
    return each * (ranks - 1) // ranks


def sent_tensor_parallel(facts: ModelFacts, ranks: int) -> int:
    """Bytes that each GPU sends for a token of a prompt under tensor parallelism: the ring's share of every sum."""
    return SUMS_A_LAYER * facts.num_hidden_layers * facts.hidden_size * BYTES * 2 * (ranks - 1) // ranks
