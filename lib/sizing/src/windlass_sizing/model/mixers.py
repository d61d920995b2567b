"""How many weights a layer has beside plain attention: latent attention, and the mixers that keep a state.

Each kind is recognised by the keys that only it has. The state's size is what one sequence keeps instead of keys and
values. Arithmetic on settings; `params.py` adds it up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from windlass_sizing.model.settings import Settings, is_number


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek): low-rank queries, keys and values."""

    q_rank: int  # 0: queries are not low-rank
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    index_heads: int = 0  # DeepSeek V3.2: a small attention that picks the tokens
    index_dim: int = 0
    is_gated: bool = False  # a gate as wide as the values of all heads


@dataclass(frozen=True, slots=True)
class Mixer:
    """Weights of one layer's mixer, and the values that a sequence keeps in it."""

    params: int
    state_values: int = 0


def read_latent(settings: Settings) -> Latent | None:
    """Latent attention's ranks, when the model has it."""
    rank = settings.number("kv_lora_rank")
    if not rank or settings.get("use_mla") is False:
        return None
    sizes = {
        "nope_dim": "qk_nope_head_dim",
        "rope_dim": "qk_rope_head_dim",
        "q_rank": "q_lora_rank",
        "index_heads": "index_n_heads",
        "index_dim": "index_head_dim",
    }
    # A class without a size of its own for the values takes the plain head's (MiniCPM3).
    heads = settings.number("num_attention_heads") or 1
    value_dim = settings.number("v_head_dim") or (settings.number("hidden_size") or 0) // heads
    dims = {name: settings.number(key) or 0 for name, key in sizes.items()}
    whole = settings.number("qk_head_dim") or 0
    dims["nope_dim"] = dims["nope_dim"] or max(0, whole - dims["rope_dim"])
    return Latent(kv_rank=rank, value_dim=value_dim, is_gated=settings.flag("mla_use_output_gate"), **dims)


def latent_inputs(latent: Latent, hidden: int, heads: int) -> int:
    """Queries, keys and values of a latent attention; the output projection is counted beside."""
    query_out = heads * (latent.nope_dim + latent.rope_dim)
    queries = latent.q_rank * (hidden + query_out) if latent.q_rank else hidden * query_out
    down = hidden * (latent.kv_rank + latent.rope_dim)
    up = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
    indexer = latent.index_heads * (latent.index_dim * (latent.q_rank or hidden) + hidden) + hidden * latent.index_dim
    gate = hidden * heads * latent.value_dim if latent.is_gated else 0
    return queries + down + up + gate + (indexer if latent.index_heads else 0)


def compression_ratios(settings: Settings) -> list[int]:
    """DeepSeek V4: over how many tokens each layer keeps one row, 0 where it only slides; empty for other models."""
    listed, rates = settings.numbers("compress_ratios"), settings.get("compress_rates")
    if listed or not isinstance(rates, dict):
        return listed[: settings.number("num_hidden_layers")]
    return [rates.get(str(kind), 0) for kind in settings.items("layer_types")]


def counted_weights(settings: Settings, hidden: int) -> tuple[int, int] | None:
    """Inputs and output of an attention of a shape of its own; None for the usual one."""
    return _compressed(settings, hidden) or _factored(settings, hidden)


def _factored(settings: Settings, hidden: int) -> tuple[int, int] | None:
    """Step 3: one key and value head, and queries that go through a narrow matrix."""
    narrow = settings.number("share_q_dim")
    if not narrow:
        return None
    head_dim = settings.number("head_dim") or 0
    queries = (settings.number("num_attention_heads") or 1) * head_dim
    return hidden * (narrow + 2 * head_dim) + narrow * queries, queries * hidden


def _compressed(settings: Settings, hidden: int) -> tuple[int, int] | None:
    """DeepSeek V4's attention, inputs and output of a layer on average.

    Queries and output are low-rank, one row is key and value of all heads, and layers with a compression ratio have
    a compressor; those with the ratio 4 have one twice as wide and an indexer.
    """
    rank, groups = settings.number("o_lora_rank"), settings.number("o_groups")
    heads, head_dim = settings.number("num_attention_heads") or 1, settings.number("head_dim") or 0
    q_rank = settings.number("q_lora_rank") or hidden
    if not rank or not groups:
        return None
    layers = settings.number("num_hidden_layers") or 1
    ratios = compression_ratios(settings)
    index_dim, index_heads = settings.number("index_head_dim") or 0, settings.number("index_n_heads") or 0
    wide, narrow = ratios.count(4), sum(ratio > 4 for ratio in ratios)
    compressors = 2 * hidden * head_dim * (2 * wide + narrow)
    indexers = wide * (4 * hidden * index_dim + index_heads * (index_dim * q_rank + hidden))
    queries = hidden * q_rank + q_rank * heads * head_dim
    output = rank * heads * head_dim + hidden * groups * rank
    return queries + hidden * head_dim + (compressors + indexers) // layers, output


def state_mixer(settings: Settings, hidden: int) -> Mixer:
    """The mixer of a layer that keeps a state: the first kind whose keys are there, else lightning attention."""
    found = (reader(settings, hidden) for reader in READERS)
    return next((mixer for mixer in found if mixer), _lightning(settings, hidden))


def _first(settings: Settings, *names: str) -> int:
    value = settings.get(*names)
    return value if is_number(value) else 0


def _mamba2(settings: Settings, hidden: int) -> Mixer | None:
    heads = _first(settings, "mamba_n_heads", "mamba_num_heads", "n_mamba_heads")
    if settings.model_type == "mamba2":
        heads = _first(settings, "num_heads")
    if not heads:
        return None
    head_dim = _first(settings, "mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim")
    expand = _first(settings, "mamba_expand", "expand") or 2
    inner = _first(settings, "mamba_d_ssm") or heads * head_dim or expand * hidden
    state = _first(settings, "mamba_d_state", "ssm_state_size", "state_size")
    mixed = inner + 2 * (_first(settings, "mamba_n_groups", "mamba_ngroups", "n_groups") or 1) * state
    conv = mixed * (_first(settings, "mamba_d_conv", "conv_kernel") or 4)
    return Mixer(hidden * (inner + mixed + heads) + conv + inner * hidden, inner * state)


def _mamba1(settings: Settings, hidden: int) -> Mixer | None:
    state = _first(settings, "mamba_d_state", "state_size")
    if not state:
        return None
    inner = (_first(settings, "mamba_expand", "expand") or 2) * hidden
    rank = settings.get("mamba_dt_rank", "time_step_rank")
    rank = rank if is_number(rank) else -(-hidden // 16)
    conv = inner * (_first(settings, "mamba_d_conv", "conv_kernel") or 4)
    inside = inner * (rank + 2 * state) + rank * inner + inner * state
    return Mixer(3 * hidden * inner + inside + conv, inner * state)


def _gated_delta(settings: Settings, hidden: int) -> Mixer | None:
    heads = _first(settings, "linear_num_value_heads")
    if not heads:
        return None
    key_dim, value_dim = _first(settings, "linear_key_head_dim"), _first(settings, "linear_value_head_dim")
    keys, values = _first(settings, "linear_num_key_heads") * key_dim, heads * value_dim
    conv = (2 * keys + values) * (_first(settings, "linear_conv_kernel_dim") or 4)
    return Mixer(hidden * (2 * keys + 2 * values + 2 * heads) + conv + values * hidden, values * key_dim)


def _delta_attention(settings: Settings, hidden: int) -> Mixer | None:
    """Kimi's: queries, keys and values of one size, forget and output gates of low rank."""
    linear: Any = settings.get("linear_attn_config")
    linear = linear if isinstance(linear, dict) else {}
    heads = linear.get("num_heads") or _first(settings, "linear_num_heads")
    head_dim = linear.get("head_dim") or _first(settings, "linear_head_dim")
    if not heads or not head_dim:
        return None
    inner = heads * head_dim
    low_rank = hidden * head_dim + head_dim * inner
    output_gate = hidden * inner if linear.get("use_full_rank_gate") is True else low_rank
    gates = low_rank + output_gate + hidden * heads
    conv = linear.get("short_conv_kernel_size") or _first(settings, "linear_conv_kernel_dim") or 4
    return Mixer(4 * hidden * inner + gates + 3 * inner * conv, inner * head_dim)


def _short_convolution(settings: Settings, hidden: int) -> Mixer | None:
    length = _first(settings, "conv_L_cache")
    return Mixer(4 * hidden * hidden + hidden * length, hidden * length) if length else None


def _gated_recurrence(settings: Settings, hidden: int) -> Mixer | None:
    width = _first(settings, "lru_width")
    if not width:
        return None
    gates = 2 * width * width // (settings.number("num_attention_heads") or 1)
    return Mixer(3 * hidden * width + gates + 4 * width, width)


def _lightning(settings: Settings, hidden: int) -> Mixer:
    """Queries, keys, values, output gate and output over all heads (MiniMax-Text, Ling linear)."""
    heads = settings.number("num_attention_heads") or 1
    head_dim = settings.number("head_dim") or hidden // heads
    return Mixer(5 * hidden * heads * head_dim, heads * head_dim * head_dim)


READERS: tuple[Callable[[Settings, int], Mixer | None], ...] = (
    _gated_delta,
    _delta_attention,
    _short_convolution,
    _gated_recurrence,
    _mamba2,
    _mamba1,
)
