"""From the keys of a config.json to the numbers that `params.py` adds up.

Split from `facts.py` because reading spellings and library defaults is one idea, and describing a model another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass_sizing.architectures import Architecture
from windlass_sizing.errors import FactsError
from windlass_sizing.keys import SPELLINGS, read_int
from windlass_sizing.params import Latent, Shape

REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def read_shape(config: Mapping[str, Any], row: Architecture | None) -> Shape:
    """The decoder's sizes; raises FactsError that names every missing key at once."""
    sizes = require(config, REQUIRED)
    row = row or Architecture()
    hidden, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    experts = read_int(config, "num_experts") or 0
    intermediate = _intermediate(config, row, hidden)
    moe_intermediate = read_int(config, "moe_intermediate_size") or intermediate
    tied = config.get("tie_word_embeddings")
    return Shape(
        hidden=hidden,
        layers=sizes["num_hidden_layers"],
        heads=heads,
        kv_heads=_kv_heads(config, heads),
        head_dim=read_int(config, "head_dim") or row.head_dim or hidden // heads,
        vocab=sizes["vocab_size"],
        intermediate=intermediate,
        gated=row.gated_mlp,
        tied=row.tied_by_default if tied is None else bool(tied),
        experts=experts,
        moe_intermediate=moe_intermediate,
        shared_intermediate=_shared(config, moe_intermediate),
        dense_layers=_dense_layers(config),
        latent=read_latent(config),
    )


def require(config: Mapping[str, Any], facts: tuple[str, ...]) -> dict[str, int]:
    """These facts' positive numbers, or one error that names all that are missing."""
    found = {fact: read_int(config, fact) for fact in facts}
    missing = tuple(fact for fact, value in found.items() if not value or value < 1)
    if missing:
        spelled = "; ".join(f"{fact} (read as {', '.join(SPELLINGS[fact])})" for fact in missing)
        raise FactsError(f"config.json does not say {spelled}; add them or use the model's original file", missing)
    return {fact: value for fact, value in found.items() if value}


def read_latent(config: Mapping[str, Any]) -> Latent | None:
    """Latent attention's ranks, when the model has it."""
    rank = config.get("kv_lora_rank")
    if not isinstance(rank, int) or not rank:
        return None
    return Latent(
        q_rank=int(config.get("q_lora_rank") or 0),
        kv_rank=rank,
        nope_dim=int(config.get("qk_nope_head_dim") or 0),
        rope_dim=int(config.get("qk_rope_head_dim") or 0),
        value_dim=int(config.get("v_head_dim") or 0),
    )


def _kv_heads(config: Mapping[str, Any], heads: int) -> int:
    if config.get("multi_query") is True and "num_kv_heads" not in config:
        return 1
    return read_int(config, "num_key_value_heads") or heads


def _intermediate(config: Mapping[str, Any], row: Architecture, hidden: int) -> int:
    size = read_int(config, "intermediate_size") or (row.mlp_ratio or 0) * hidden
    return size // 2 if row.halved_intermediate else size


def _shared(config: Mapping[str, Any], moe_intermediate: int) -> int:
    sized = read_int(config, "shared_intermediate_size")
    return sized if sized is not None else (read_int(config, "num_shared_experts") or 0) * moe_intermediate


def _dense_layers(config: Mapping[str, Any]) -> int:
    only = config.get("mlp_only_layers")
    return len(only) if isinstance(only, list) and only else read_int(config, "first_dense_layers") or 0
