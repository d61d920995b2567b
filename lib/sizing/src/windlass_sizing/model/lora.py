"""What the engine sets aside for LoRA adapters: places for each linear layer, allocated whole at the start.

Every linear layer of the model gets `max_loras` places of `max_lora_rank` rows, whatever modules an adapter changes
(vLLM 0.32, `vllm/lora/layers`). A layer's A takes its input once for each matrix that is fused into it, its B the
output. Under tensor parallelism one of the two is split, the other lies on every rank. Arithmetic on a shape; the
server and the memory formula take the same rules from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_sizing.model.architectures import ARCHITECTURES, USUAL
from windlass_sizing.model.layers import BOTH, DENSE, EXPERTS, NONE, STATE, WINDOW, Layer
from windlass_sizing.model.lora_config import engine_rank
from windlass_sizing.model.mixers import Latent
from windlass_sizing.model.params import Attention, Shape
from windlass_sizing.model.settings import text_settings
from windlass_sizing.model.shape import read_shape

IN_A_BATCH = 4
"""More adapters than this share a step's places: each place costs memory for the largest rank."""

PLAIN_EMBEDDINGS = (
    *("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3_next", "gemma", "gemma2", "gemma3", "gemma3_text"),
    *("gemma4", "gemma4_text", "glm4", "glm4_moe", "chatglm", "gpt_oss", "internlm2", "deepseek_v2", "deepseek_v3"),
    *("ernie4_5_moe", "minimax_m2", "olmoe", "opt"),
)
"""Values of model_type whose class offers neither embedding nor head to adapters; all others are taken to do so."""


@dataclass(frozen=True, slots=True)
class Width:
    """Values that one rank row of one place takes in the whole model."""

    whole: int = 0  # on every rank
    split: int = 0  # shared by the ranks of tensor parallelism

    def __add__(self, other: Width) -> Width:
        return Width(self.whole + other.whole, self.split + other.split)

    def __mul__(self, times: int) -> Width:
        return Width(self.whole * times, self.split * times)


@dataclass(frozen=True, slots=True)
class Slots:
    """The adapters that are served by name, as the engine makes room for them."""

    count: int
    rank: int

    @property
    def values(self) -> int:
        """Rank rows of all places: what a Width is multiplied by."""
        return self.count * self.rank


def slots(ranks: Iterable[int]) -> Slots:
    """Places for adapters of these ranks; nothing for none."""
    every = list(ranks)
    return Slots(min(len(every), IN_A_BATCH), engine_rank(max(every))) if every else Slots(0, 0)


def width_of(config: Mapping[str, Any]) -> Width:
    """The width of the model of a config.json whose facts could be read."""
    text = text_settings(config)
    shape = read_shape(text, ARCHITECTURES.get(text.model_type, USUAL))
    return width(shape, embeddings=text.model_type not in PLAIN_EMBEDDINGS)


def width(shape: Shape, *, embeddings: bool) -> Width:
    """Of all layers, and of the embedding and the head where adapters may change these."""
    table = 2 * (shape.vocab + (shape.embedding_dim or shape.hidden))
    found = Width(whole=table if embeddings else 0)
    for layer, times in Counter(shape.layers).items():
        found += (_mixer(shape, layer) + _mlp(shape, layer)) * times
    return found


def _mixer(shape: Shape, layer: Layer) -> Width:
    if layer.mixer == NONE:
        return Width()
    state = Width(2 * shape.hidden, shape.state.params // shape.hidden)
    if layer.mixer == STATE:
        return state
    found = _attention(shape.hidden, shape.window if layer.mixer == WINDOW else shape.full, layer)
    found = found * 2 if shape.twin else found
    return found + state if layer.mixer == BOTH else found


def _attention(hidden: int, attention: Attention, layer: Layer) -> Width:
    if attention.counted:
        return Width(4 * hidden, sum(attention.counted) // hidden)
    if attention.latent:
        return _latent(hidden, attention.heads, attention.latent)
    queries = attention.heads * attention.head_dim * (2 if attention.gated else 1)
    kept = attention.head_dim + attention.value_dim
    keys_values = 0 if layer.shares_kv else (layer.kv_heads or attention.kv_heads) * kept
    output = attention.heads * attention.value_dim
    return Width(3 * hidden + hidden, queries + keys_values + output)


def _latent(hidden: int, heads: int, latent: Latent) -> Width:
    """Queries through a narrow matrix where there is one, keys and values through another, then the output."""
    queries = heads * (latent.nope_dim + latent.rope_dim)
    narrow = hidden + 2 * latent.q_rank if latent.q_rank else hidden
    down = hidden + latent.kv_rank + latent.rope_dim
    up = heads * (latent.nope_dim + latent.value_dim)
    return Width(narrow + down + latent.kv_rank + hidden, queries + up + heads * latent.value_dim)


def _mlp(shape: Shape, layer: Layer) -> Width:
    plain = _matrices(shape, layer.intermediate or shape.intermediate)
    if layer.mlp == DENSE:
        return plain
    if layer.mlp != EXPERTS:
        return Width()
    beside = plain * (2 if shape.twin else 1 if shape.dense_beside_experts else 0)
    shared = _matrices(shape, shape.shared_width) if shape.shared_width else Width()
    router = Width(whole=shape.hidden + shape.experts)
    narrow = Width(whole=2 * (shape.hidden + shape.expert_hidden) if shape.expert_hidden else 0)
    return beside + shared + router + narrow + _matrices(shape, shape.expert_width, max(1, shape.experts))


def _matrices(shape: Shape, inner: int, experts: int = 0) -> Width:
    """Gate, up and down; `inner` is the width of all experts together, which may be narrower than the model."""
    fused, hidden = 2 if shape.gated else 1, (shape.expert_hidden if experts else 0) or shape.hidden
    return Width((fused + 1) * hidden * max(1, experts), (fused + 1) * inner)
