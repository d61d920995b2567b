"""How each fact is spelled in config.json: the first key that is present wins.

A table of spellings, so that `facts.py` and `params.py` read one vocabulary whatever the model's author wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPELLINGS: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv", "n_kv_heads"),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"),
    "max_model_len": (
        "max_position_embeddings",
        "seq_length",
        "max_sequence_length",
        "max_seq_len",
        "model_max_length",
        "n_positions",
        "seq_len",
        "max_target_positions",
    ),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared_intermediate_size": ("shared_expert_intermediate_size", "shared_intermediate_size"),
    "num_shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert"),
    "first_dense_layers": ("first_k_dense_replace", "moe_layer_start_index"),
    "sliding_window": ("sliding_window", "attention_window_size"),
}
TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")


def text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's own settings: nested ones laid over the outer ones."""
    for name in TEXT_PARTS:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            outer = {key: value for key, value in config.items() if key != name}
            return {**outer, **text_part(inner)}
    return dict(config)


def read_int(config: Mapping[str, Any], fact: str) -> int | None:
    """The fact's number under any of its spellings; lists (one a layer) give their largest."""
    for key in SPELLINGS[fact]:
        value = config.get(key)
        if isinstance(value, list) and value and all(isinstance(item, int) for item in value):
            return max(int(item) for item in value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
