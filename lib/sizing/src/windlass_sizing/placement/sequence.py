"""Long prompts split over GPUs: which models can be served so, and what goes between the GPUs. Pure arithmetic."""

from __future__ import annotations

from dataclasses import replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import Serving, demand

ROWS_EACH_MIN = 128
"""Tokens of a prompt for each GPU below which every GPU computes all of it.

A shorter step takes as long as reading the weights, so the exchange would only be added. A prompt is cut into 2 N
parts. N ranks of 128 rows are more than 2 N (2 N - 1) up to 32 ranks, so no rank is left without rows.
`windlass.engine.sequence_parallel.schedule` decides by it.
"""
BYTES = 2  # of a value on its way: keys, values and hidden states are float16 or bfloat16
LONG_TOKENS = 16384
"""A context from which prompts may be long enough that splitting them is worth a line of advice."""
KIB = 1024
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


def split_prompts(facts: ModelFacts, tp: int, sp: int) -> tuple[str, ...]:
    """What a plan says of GPUs that share long prompts, and when that pays."""
    if sp == 1:
        return ()
    shared, summed = sent_split(facts, sp) // tp / KIB, sent_tensor_parallel(facts, sp) / KIB
    return (
        f"prompts of {sp * ROWS_EACH_MIN} tokens or more are shared by {sp} × {tp} GPUs",
        f"each of the {sp} parts holds all weights and the whole KV cache",
        f"a GPU sends {shared:.0f} KiB for a token of a prompt, and {summed:.0f} KiB under tensor parallelism over "
        f"{sp} more: sharing pays for long prompts on GPUs without NVLink",
    )


def split_instead(facts: ModelFacts, serving: Serving, card_gib: float | None, *, sp: int) -> tuple[str, ...]:
    """Advice to share prompts in the place of half of the tensor parallelism, where fewer cards hold the model."""
    tp = serving.tp // 2
    if sp > 1 or serving.pp > 1 or serving.tp % 2 or serving.max_model_len < LONG_TOKENS or obstacle(facts):
        return ()
    need = demand(facts, replace(serving, tp=tp)).per_gpu_gib
    if card_gib is None or need > card_gib:
        return ()
    return (
        f"for long prompts on GPUs without NVLink: engine.sequenceParallelSize 2 with engine.tensorParallelSize {tp}, "
        f"{need:.2f} GiB a GPU: a token of a prompt sends {sent_split(facts, 2) // tp / KIB:.0f} KiB a GPU in the "
        f"place of {sent_tensor_parallel(facts, 2) / KIB:.0f} KiB; decoding is that of {tp} GPU{'s' * (tp > 1)}",
    )
