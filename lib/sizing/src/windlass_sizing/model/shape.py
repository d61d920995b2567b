"""From the settings of a language model to the numbers that `params.py` adds up.

Split from `facts.py` because reading spellings and library defaults is one idea, and describing a model another.
"""

from __future__ import annotations

import math
from dataclasses import replace

from windlass_sizing.errors import FactsError
from windlass_sizing.model.architectures import Architecture
from windlass_sizing.model.keys import SPELLINGS, TIED
from windlass_sizing.model.layers import CROSS, FULL, STATE, WINDOW, Layer, read_layers
from windlass_sizing.model.mixers import Mixer, compression_ratios, counted_weights, read_latent, state_mixer
from windlass_sizing.model.params import Attention, Shape
from windlass_sizing.model.plausible import must_be_plausible
from windlass_sizing.model.settings import Settings, is_number, library

REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
WITHOUT_ATTENTION = ("hidden_size", "num_hidden_layers", "vocab_size")


def read_shape(settings: Settings, row: Architecture) -> Shape:
    """The decoder's sizes; raises FactsError that names every missing key at once."""
    sizes = require(settings, WITHOUT_ATTENTION if row.all_layers == STATE else REQUIRED)
    hidden = sizes["hidden_size"]
    base = _attention(settings, row, hidden)
    count, own_layers = _depth(settings, sizes["num_hidden_layers"])
    layers = _with_shared_kv(settings, read_layers(settings, row, count))
    base = replace(base, kv_heads=max((layer.kv_heads or 0 for layer in layers), default=0) or base.kv_heads)
    moe = settings.number("moe_intermediate_size") or _intermediate(settings, row, hidden)
    kinds = {layer.mixer for layer in layers}
    experts = settings.number("num_experts") or 0
    return Shape(
        hidden=hidden,
        layers=layers,
        vocab=sizes["vocab_size"],
        base=base,
        full=_full(settings, base),
        window=_window(settings, base),
        intermediate=settings.number("dense_intermediate_size") or _intermediate(settings, row, hidden),
        gated=row.gated_mlp or settings.get("activation_function") == "swiglu",
        tied=_tied(settings, row),
        experts=experts if experts > 1 else 0,
        expert_width=_expert_width(settings, moe, len(layers)),
        shared_width=moe if row.shared_expert else _shared(settings, moe),
        expert_hidden=settings.number("expert_hidden_size") or 0,
        state=state_mixer(settings, hidden) if kinds - {FULL, WINDOW, CROSS} else Mixer(0),
        embedding_dim=settings.number("word_embed_proj_dim") or 0,
        beside=_beside(settings, row, hidden),
        layer_extra=_layer_extra(settings, hidden),
        dense_beside_experts=row.dense_beside_experts,
        compressed_layers=math.ceil(sum(1 / ratio for ratio in compression_ratios(settings) if ratio)),
        twin=row.twin,
        own_layers=own_layers,
        unrouted=settings.number("zero_expert_num") or 0,
    )


def _depth(settings: Settings, layers: int) -> tuple[int, int]:
    """How many layers run, and how many of them have weights of their own; 0: all.

    HRM runs two stacks several times. Its files say the layers of a stack, or these beside all that run.
    """
    high, low = settings.number("H_cycles"), settings.number("L_cycles")
    if not high or low is None:
        return layers, 0
    stack = settings.number("num_layers_per_stack")
    if not stack:
        stack, layers = layers, layers * high * (low + 1)
    must_be_plausible("num_hidden_layers", layers)
    return layers, 2 * stack


def require(settings: Settings, facts: tuple[str, ...]) -> dict[str, int]:
    """These facts' positive numbers, or one error that names all that are missing."""
    found = {fact: settings.value_of(fact) for fact in facts}
    found["num_hidden_layers"] = found["num_hidden_layers"] or len(settings.items("layers_block_type"))
    missing = tuple(fact for fact, value in found.items() if not value or value < 1)
    if missing:
        spelled = "; ".join(f"{fact} (read as {', '.join(SPELLINGS[fact])})" for fact in missing)
        raise FactsError(f"config.json does not say {spelled}; add them or use the model's original file", missing)
    sizes = {fact: value for fact, value in found.items() if value}
    for fact, value in sizes.items():  # before anything is made once a layer
        must_be_plausible(fact, value)
    return sizes


def _attention(settings: Settings, row: Architecture, hidden: int) -> Attention:
    heads = settings.number("num_attention_heads") or 1
    latent = read_latent(settings)
    head_dim = settings.number("head_dim") or row.head_dim or hidden // heads
    value_dim = settings.number("value_head_dim") or head_dim
    gated = settings.get("attn_output_gate") is not False and row.gated_attention
    counted = counted_weights(settings, hidden)
    return Attention(heads, _kv_heads(settings, heads), head_dim, value_dim, gated, latent=latent, counted=counted)


def _kv_heads(settings: Settings, heads: int) -> int:
    grouped = settings.flag("new_decoder_architecture") or settings.get("n_head_kv")
    if settings.flag("multi_query") and not grouped:
        return 1
    if settings.get("multi_query") is False and not grouped and settings.get("num_kv_heads") is None:
        return heads
    if settings.get("multi_query_attention") is False:
        return heads
    return settings.number("num_key_value_heads") or heads


def _full(settings: Settings, base: Attention) -> Attention:
    """The attention of layers that see the whole context, where they differ (Gemma 4)."""
    head_dim = settings.number("global_head_dim")
    if not head_dim:
        return base
    keys_are_values = settings.flag("attention_k_eq_v")
    kv_heads = settings.number("num_global_key_value_heads") if keys_are_values else None
    wide = replace(base, head_dim=head_dim, value_dim=head_dim, keys_are_values=keys_are_values)
    return replace(wide, kv_heads=kv_heads or base.kv_heads)


def _window(settings: Settings, base: Attention) -> Attention:
    """The attention of sliding layers, where they differ (MiMo V2)."""
    other = settings.get("attention_other_setting")  # Step 3.5
    other = other if isinstance(other, dict) else {}
    heads = settings.number("swa_num_attention_heads") or other.get("num_attention_heads") or base.heads
    kv_heads = settings.number("swa_num_key_value_heads") or other.get("num_attention_groups") or base.kv_heads
    head_dim = settings.number("swa_head_dim") or base.head_dim
    value_dim = settings.number("swa_v_head_dim") or base.value_dim
    return replace(base, heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_dim=value_dim)


def _with_shared_kv(settings: Settings, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Layers that read the keys and values of another one: the last (Gemma 3n, 4) or every second (Hunyuan)."""
    last = len(layers) - (settings.number("num_kv_shared_layers") or 0)
    factor = settings.number("cla_share_factor") or 1
    factor = factor if settings.flag("use_cla") else 1
    wide = 2 * (settings.number("intermediate_size") or 0) if settings.flag("use_double_wide_mlp") else None
    return tuple(
        replace(layer, shares_kv=True, intermediate=wide if index >= last else layer.intermediate)
        if index >= last or index % factor
        else layer
        for index, layer in enumerate(layers)
    )


def _intermediate(settings: Settings, row: Architecture, hidden: int) -> int:
    found = settings.numbers("intermediate_size")
    size = round(sum(found) / len(found)) if found else 0
    ratio = settings.get("expansion_ratio", "mlp_ratio") or row.mlp_ratio or 0
    size = size or round(ratio * hidden)
    if settings.get("block_auto_adjust_ff_dim") is True:  # LFM2 takes two thirds, rounded up
        multiple = settings.number("block_multiple_of") or 1
        scaled = int((settings.get("block_ffn_dim_multiplier") or 1) * int(2 * size / 3))
        return -(-scaled // multiple) * multiple
    return size // 2 if row.halved_intermediate else size


def _expert_width(settings: Settings, moe: int, layers: int) -> int:
    """The intermediate sizes of all experts of a layer, added; lists are one a layer, or one a group of experts."""
    counts, sizes = settings.numbers("num_experts"), settings.numbers("moe_intermediate_size")
    if 1 < len(sizes) != layers:  # one size for each group of experts (ERNIE VL: for text and for images)
        counts = counts if len(counts) == len(sizes) else counts[:1] * len(sizes)
        return sum(count * size for count, size in zip(counts, sizes, strict=True))
    if len(counts) > 1 or len(sizes) > 1:
        average = sum(counts or [0]) / max(1, len(counts)) * (sum(sizes) / len(sizes) if sizes else moe)
        return round(average)
    return (counts[0] if counts else 0) * moe


def _shared(settings: Settings, moe: int) -> int:
    sized = settings.number("shared_intermediate_size")
    return sized if sized is not None else (settings.number("num_shared_experts") or 0) * moe


def _tied(settings: Settings, row: Architecture) -> bool:
    # A vision model's outer file speaks for the whole: the class ties by the outer setting.
    for source in (settings.outer, settings.given):
        if isinstance(source.get(TIED), bool):
            return bool(source[TIED])
    default = settings.defaults.get(TIED)
    if isinstance(default, bool):
        return default
    # The base class of all configurations ties, and a file leaves out what equals it; nested parts are not so saved.
    return row.tied_by_default or (settings.model_type not in library() and not settings.outer)


def _layer_extra(settings: Settings, hidden: int) -> int:
    """Per-layer inputs (Gemma 3n, 4), hyper-connections (DeepSeek V4), residuals over blocks of layers (Kimi K3).

    And relative positions with short convolutions (Inkling).
    """
    streams = settings.number("hc_mult") or 0
    residuals = 4 * hidden if settings.number("attn_res_block_size") else 0
    heads, wide = settings.number("num_attention_heads") or 0, settings.number("d_rel") or 0
    kernel = settings.number("conv_kernel_size") or settings.number("sconv_kernel_size") or 0
    relative = hidden * (heads * wide + 2 * kernel) if wide else 0
    return (
        residuals
        + relative
        + 2 * hidden * ((settings.number("hidden_size_per_layer_input") or 0) + (2 + streams) * streams * streams)
    )


def _beside(settings: Settings, row: Architecture, hidden: int) -> int:
    positions = (settings.get("n_positions", "max_position_embeddings") or 0) * hidden if row.learned_positions else 0
    types = (settings.number("type_vocab_size") or 0) * hidden
    narrow = settings.number("hidden_size_per_layer_input") or 0
    rows = settings.number("vocab_size_per_layer_input") or 0
    layers = settings.number("num_hidden_layers") or 0
    return (positions if is_number(positions) else 0) + types + layers * narrow * (rows + hidden)
