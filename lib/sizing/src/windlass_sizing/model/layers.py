"""What each layer of a decoder is: how it mixes tokens, and which feed-forward part follows.

Authors write it in a dozen ways: a list for every layer, a period and an offset, a string of letters. Each way is one
small reader; the first that applies answers. Counting parameters and KV cache both start from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from windlass_sizing.model.architectures import Architecture
from windlass_sizing.model.mixers import compression_ratios
from windlass_sizing.model.settings import Settings, is_number

FULL, WINDOW, STATE, BOTH, CROSS, NONE = "full", "window", "state", "both", "cross", "none"
DENSE, EXPERTS = "dense", "experts"

MIXERS = {
    "full_attention": FULL,
    "attention": FULL,
    "global": FULL,
    "hybrid": FULL,
    "global_attention": FULL,
    "indexed_attention": FULL,
    "compressed_sparse_attention": FULL,
    "heavily_compressed_attention": FULL,
    "sliding_attention": WINDOW,
    "sliding_window_attention": WINDOW,
    "chunked_attention": WINDOW,
    "hybrid_sliding": WINDOW,
    "local": WINDOW,
    "local_attention": WINDOW,
    "linear_attention": STATE,
    "mamba": STATE,
    "mamba2": STATE,
    "recurrent": STATE,
    "conv": STATE,
    "lightning_attention": STATE,
    "moe": NONE,
    "mlp": NONE,
}
LETTERS = {"M": STATE, "*": FULL, "E": NONE, "-": NONE}
SINGLE_BLOCKS = {"E": EXPERTS, "-": DENSE, "moe": EXPERTS, "mlp": DENSE}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer; `kv_heads` and `intermediate` are set where layers differ in size."""

    mixer: str = FULL
    mlp: str = DENSE
    kv_heads: int | None = None
    intermediate: int | None = None
    shares_kv: bool = False  # reads the keys and values of another layer


def read_layers(settings: Settings, row: Architecture, count: int) -> tuple[Layer, ...]:
    """The layers of a decoder, first to last."""
    blocks = [block for block in settings.items("block_configs") if isinstance(block, Mapping)]
    if blocks:
        return tuple(_searched(block, settings) for block in blocks)
    letters = _single_blocks(settings)
    if letters:
        return tuple(Layer(_mixer(one), SINGLE_BLOCKS.get(one, NONE)) for one in letters[:count])
    mixers = next((found for reader in MIXER_READERS if (found := reader(settings, row, count))), [FULL] * count)
    if row.all_layers == STATE:
        return tuple(Layer(STATE, NONE) for _ in range(count))
    cross = set(settings.items("cross_attention_layers"))
    mixers = [CROSS if index in cross else mixer for index, mixer in enumerate(mixers)]
    return tuple(Layer(mixer, mlp) for mixer, mlp in zip(mixers, mlp_kinds(settings, count), strict=False))


def _mixer(name: object) -> str:
    return LETTERS.get(str(name)) or MIXERS.get(str(name), FULL)


def _single_blocks(settings: Settings) -> list[str]:
    """Layers that are a mixer *or* a feed-forward part (Nemotron-H): a string of letters, or a list of words."""
    letters = settings.get("hybrid_override_pattern")
    if isinstance(letters, str):
        return [one for one in letters if one in LETTERS]
    words = [str(one) for one in settings.items("layers_block_type")]
    return words if set(words) & set(SINGLE_BLOCKS) else []


def _searched(block: Mapping[str, Any], settings: Settings) -> Layer:
    """A layer of an architecture that was searched for (Nemotron-NAS): its own KV heads and MLP, or none at all."""
    attention, ffn = block.get("attention") or {}, block.get("ffn") or {}
    heads, hidden = settings.number("num_attention_heads") or 1, settings.number("hidden_size") or 0
    group = attention.get("n_heads_in_group")
    empty = attention.get("no_op") or attention.get("replace_with_linear")
    width = ffn.get("intermediate_size")
    if not width and ffn.get("ffn_mult"):
        width = -(-int(2 * ffn["ffn_mult"] * hidden / 3) // 256) * 256
    return Layer(
        NONE if empty else FULL,
        NONE if ffn.get("no_op") else DENSE,
        heads // group if is_number(group) and group else None,
        width if is_number(width) else None,
    )


def _compressed(settings: Settings, row: Architecture, count: int) -> list[str]:
    """DeepSeek V4: every layer slides, and some keep one row for so many tokens beside."""
    return [WINDOW] * count if compression_ratios(settings) else []


def _listed(settings: Settings, row: Architecture, count: int) -> list[str]:
    words = settings.items("layer_types") or settings.items("layers_block_type")
    if row.all_layers:
        return []
    return [_mixer(word) for word in words[:count]] if len(words) >= count else []


def _numbered(settings: Settings, row: Architecture, count: int) -> list[str]:
    """Lists of numbers: MiMo's 1 slides, MiniMax's 1 sees all."""
    sliding, full = settings.items("hybrid_layer_pattern"), settings.items("attn_type_list")
    if len(sliding) >= count:
        return [WINDOW if one else FULL for one in sliding[:count]]
    return [FULL if one else STATE for one in full[:count]] if len(full) >= count else []


def _indexed(settings: Settings, row: Architecture, count: int) -> list[str]:
    """The layers of one kind by number; the others keep a state or, where these slide, see all."""
    for name in ("full_attn_idxs", "attn_layer_indices"):
        places = set(settings.items(name))
        if places:
            return [FULL if index in places else STATE for index in range(count)]
    sliding = set(settings.items("local_layer_ids"))
    if sliding:
        return [WINDOW if index in sliding else FULL for index in range(count)]
    linear = settings.get("linear_attn_config")
    if isinstance(linear, dict) and linear.get("full_attn_layers"):
        numbers = set(linear["full_attn_layers"])
        return [FULL if index + 1 in numbers else STATE for index in range(count)]
    return []


def _cycled(settings: Settings, row: Architecture, count: int) -> list[str]:
    """A short pattern that repeats: words, gpt-neo's `[[["global", "local"], 12]]`, or letters as LLLG."""
    words = settings.items("block_types")
    if words:
        kinds = [WINDOW if word == "attention" else STATE for word in words]
        return [kinds[index % len(kinds)] for index in range(count)]
    grouped = settings.items("attention_types")
    if grouped:
        words_in_turn = (word for words, times in grouped for _ in range(min(times, count)) for word in words)
        return [_mixer(word) for word in islice(words_in_turn, count)]
    letters = settings.get("sliding_window_pattern")
    if isinstance(letters, str) and letters:
        return [WINDOW if letters[index % len(letters)] == "L" else FULL for index in range(count)]
    return []


def _period(settings: Settings, row: Architecture, count: int) -> list[str]:
    """Every n-th layer sees the whole context; the others keep a state or a window."""
    period, offset = settings.get("attn_layer_period"), settings.get("attn_layer_offset")
    if is_number(period) and period:
        return [FULL if index % period == (offset or 0) else STATE for index in range(count)]
    every = settings.get("full_attention_interval", "layer_group_size")
    if is_number(every) and every > 1:
        return [FULL if (index + 1) % every == 0 else STATE for index in range(count)]
    window = settings.number("sliding_window")
    every = settings.get("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    every = every if is_number(every) else row.window_pattern
    if window and every and every > 1:
        return [FULL if (index + 1) % every == 0 else WINDOW for index in range(count)]
    return []


def _all_alike(settings: Settings, row: Architecture, count: int) -> list[str]:
    """Windows on every layer, on the upper ones (Qwen2), or no attention at all (Mamba)."""
    if row.all_layers:
        return [row.all_layers] * count
    if not settings.number("sliding_window"):
        return []
    if settings.flag("use_sliding_window"):
        lowest = settings.get("max_window_layers") or 0
        return [WINDOW if index >= lowest else FULL for index in range(count)]
    return [WINDOW] * count if row.slides else []


MixerReader = Callable[[Settings, Architecture, int], list[str]]
MIXER_READERS: tuple[MixerReader, ...] = (_compressed, _listed, _numbered, _indexed, _cycled, _period, _all_alike)


def mlp_kinds(settings: Settings, count: int) -> list[str]:
    """The feed-forward part of each layer."""
    if (settings.number("num_experts") or 0) < 2 or settings.get("is_moe") is False:
        return [DENSE] * count
    where = next((found for reader in MLP_READERS if (found := reader(settings))), lambda _: True)
    return [EXPERTS if where(index) else DENSE for index in range(count)]


Where = Callable[[int], bool]


def _mlp_listed(settings: Settings) -> Where | None:
    words, bits = settings.items("mlp_layer_types"), settings.items("moe_layer_freq")
    if words:
        return lambda index: index < len(words) and words[index] not in ("dense", "mlp")
    return (lambda index: index < len(bits) and bool(bits[index])) if bits else None


def _mlp_indexed(settings: Settings) -> Where | None:
    places = set(settings.items("moe_layers"))
    text = settings.get("moe_layers_enum")
    if isinstance(text, str) and text:
        places = {int(one) for one in text.split(",") if one.strip().isdecimal()}
    return (lambda index: index in places) if places else None


def _mlp_stepped(settings: Settings) -> Where | None:
    only, step = set(settings.items("mlp_only_layers")), settings.get("decoder_sparse_step")
    if only or is_number(step):
        return lambda index: index not in only and (index + 1) % (step or 1) == 0
    period, offset = settings.get("expert_layer_period"), settings.get("expert_layer_offset")
    if is_number(period) and period:
        return lambda index: index % period == (offset or 0)
    every = settings.get("interleave_moe_layer_step", "moe_layer_frequency")
    return (lambda index: (index + 1) % every == 0) if is_number(every) and every else None


def _mlp_between(settings: Settings) -> Where | None:
    first = settings.numbers("moe_layer_start_index")
    if first:
        last = max(settings.numbers("moe_layer_end_index") or [-1])
        every = settings.number("moe_layer_interval") or 1
        return lambda index: first[0] <= index and (last < 0 or index <= last) and (index + 1) % every == 0
    dense = settings.number("dense_layers")
    every = settings.number("moe_layer_freq") or 1
    return (lambda index: index >= dense and index % every == 0) if dense is not None else None


MLP_READERS: tuple[Callable[[Settings], Where | None], ...] = (_mlp_listed, _mlp_indexed, _mlp_stepped, _mlp_between)
