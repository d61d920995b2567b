"""Counting parameters from a model's shape.

Matrices only: norms and biases are under 0.1 % of any model that needs a GPU. Arithmetic on plain numbers; `facts.py`
reads the numbers, this file adds them up.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek): low-rank queries, keys and values."""

    q_rank: int  # 0: queries are not low-rank
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    intermediate: int
    gated: bool = True
    tied: bool = False
    experts: int = 0
    moe_intermediate: int = 0
    shared_intermediate: int = 0
    dense_layers: int = 0  # of a mixture of experts: layers with a plain MLP
    latent: Latent | None = None


def embedding_params(shape: Shape) -> int:
    """Token embedding, and the output head when it is a matrix of its own."""
    return shape.vocab * shape.hidden * (1 if shape.tied else 2)


def count_params(shape: Shape) -> int:
    """All parameters of the decoder; tied tensors once."""
    dense = shape.dense_layers if shape.experts else shape.layers
    norms = 2 * shape.hidden * shape.layers + shape.hidden
    return (
        embedding_params(shape)
        + norms
        + shape.layers * _attention(shape)
        + dense * _mlp(shape, shape.intermediate)
        + (shape.layers - dense) * _expert_layer(shape)
    )


def _attention(shape: Shape) -> int:
    if shape.latent:
        return _latent_attention(shape, shape.latent)
    queries = shape.hidden * shape.heads * shape.head_dim
    keys_values = 2 * shape.hidden * shape.kv_heads * shape.head_dim
    return 2 * queries + keys_values  # the output projection is as large as the queries'


def _latent_attention(shape: Shape, latent: Latent) -> int:
    query_out = shape.heads * (latent.nope_dim + latent.rope_dim)
    queries = latent.q_rank * (shape.hidden + query_out) if latent.q_rank else shape.hidden * query_out
    down = shape.hidden * (latent.kv_rank + latent.rope_dim)
    up = latent.kv_rank * shape.heads * (latent.nope_dim + latent.value_dim)
    return queries + down + up + shape.heads * latent.value_dim * shape.hidden


def _mlp(shape: Shape, intermediate: int) -> int:
    return (3 if shape.gated else 2) * shape.hidden * intermediate


def _expert_layer(shape: Shape) -> int:
    experts = shape.experts * _mlp(shape, shape.moe_intermediate)
    return experts + _mlp(shape, shape.shared_intermediate) + shape.hidden * shape.experts
