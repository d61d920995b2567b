"""How many weights the parts beside the language model have: vision and audio towers, and what leads out of them.

Most towers are the same encoder (attention, MLP, patches, positions) under many spellings; a row says what differs.
A tower that config.json only names, or leaves to the code, is counted from the published model of that name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_sizing.model.settings import Settings, is_number, library, part_settings

PARTS = (
    *("vision_config", "audio_config", "vision_tower_config", "visual", "speech_config", "encoder_config"),
    *("vit_config", "qformer_config", "acoustic_tokenizer_encoder_config", "semantic_tokenizer_encoder_config"),
)
WIDTH = ("hidden_size", "d_model", "width", "vt_hidden_size", "dim", "hidden_dim", "n_embd")
DEPTH = (
    "num_hidden_layers",
    "depth",
    "encoder_layers",
    "vt_num_hidden_layers",
    "layers",
    "num_layers",
    "num_blocks",
    "conf_num_hidden_layers",
)
INNER = ("intermediate_size", "encoder_ffn_dim", "vt_intermediate_size", "mlp_dim", "ffn_dim")

# Towers whose sizes stand in code, not in config.json: parameters of the published encoder with its projector.
NAMED: dict[str, int] = {
    "molmo": 404_000_000,  # CLIP ViT-L/14 at 336, pooling attention and gated projector
    "deepencoderv2": 450_000_000,  # SAM-B, a compressor of 24 layers, projector
    "deepencoder": 405_000_000,  # SAM-B and CLIP ViT-L, projector
    "phi4mm": 1_738_000_000,  # SigLIP, a conformer, and the two adapters that come with them
    "phi3_v": 326_000_000,
    "minicpmv": 470_000_000,
    "mobilenetv5_300m": 300_000_000,  # Gemma 3n
    "clip-vit-large": 324_000_000,
    "siglip-so400m": 430_000_000,
}


@dataclass(frozen=True, slots=True)
class Tower:
    """What the encoder of one `model_type` has beside the usual."""

    gated: bool = False
    inner_is_output: bool = False  # GLM: the blocks' MLP is as wide as the language model
    conformer: bool = False  # two MLPs of four times the width, and a convolution, in each layer


TOWERS: dict[str, Tower] = {
    **dict.fromkeys(
        ("pixtral", "qwen2_5_vl", "qwen2_5_vl_vision", "aimv2", "gemma4_vision", "ovis2"), Tower(gated=True)
    ),
    **dict.fromkeys(
        ("qwen2_5_omni_vision_encoder", "siglip_vision_gated", "glm_ocr_vision", "voxtral_realtime_encoder"),
        Tower(gated=True),
    ),
    **dict.fromkeys(
        ("glm4v_vision", "glm4v", "glm4v_moe_vision", "glm4v_moe"), Tower(gated=True, inner_is_output=True)
    ),
    **dict.fromkeys(
        ("gemma4_audio", "gemma3n_audio", "granite_speech_encoder", "granite_speech_plus_encoder"),
        Tower(conformer=True),
    ),
    "phi4_multimodal_audio": Tower(conformer=True),
}
USUAL = Tower()


def tower_params(config: Mapping[str, Any], text_hidden: int) -> tuple[bool, int]:
    """Whether there are parts beside the language model, and their parameters; 0 when one cannot be counted."""
    parts = _parts(config)
    if not parts:
        named = _named(config.get("model_type"), config.get("mm_vision_tower"))
        return named > 0, named
    counted = [_part(config, settings, text_hidden) or _named(*settings.given.values()) for settings in parts]
    return True, sum(counted) if all(counted) else 0


def _parts(config: Mapping[str, Any]) -> list[Settings]:
    thinker, inner = config.get("thinker_config"), config.get("vlm_config")
    if isinstance(thinker, Mapping):
        return _parts({"model_type": f"{config.get('model_type')}_thinker", **thinker})
    if isinstance(inner, Mapping):
        return _parts(inner)
    return [settings for name in PARTS if (settings := part_settings(config, name))]


def _named(*words: object) -> int:
    said = " ".join(str(word) for word in words).casefold()
    return next((params for name, params in NAMED.items() if name in said), 0)


def _part(config: Mapping[str, Any], settings: Settings, text_hidden: int) -> int:
    if any(name in str(settings.get("model_name")) for name in NAMED):
        return 0
    width, depth = _number(settings, "embed_dim") or _number(settings, *WIDTH), _number(settings, *DEPTH)
    if not width or not depth:
        return 0
    row = TOWERS.get(settings.model_type, USUAL)
    audio = "audio" in settings.model_type or bool(settings.get("num_mel_bins")) or row.conformer
    out = _number(settings, "out_hidden_size") or text_hidden
    blocks = (depth + _number(settings, "num_global_layers")) * _block(settings, row, width, out)
    before = _audio_front(settings, width) if audio else _patches(settings, width)
    return blocks + before + _window_merger(settings, width) + _projector(config, settings, (width, out))


def _block(settings: Settings, row: Tower, width: int, out: int) -> int:
    if row.conformer:
        return 24 * width * width
    ratio = settings.get("mlp_ratio") or 4
    inner = out if row.inner_is_output else _number(settings, *INNER) or round(width * ratio)
    heads = _number(settings, "num_attention_heads", "num_heads", "encoder_attention_heads", "attention_heads")
    attention = heads * _number(settings, "head_dim") or width
    return 4 * width * attention + (3 if row.gated else 2) * width * inner


def _window_merger(settings: Settings, width: int) -> int:
    """MiniCPM-V 4.6: one attention over windows between two blocks, then an MLP over the patches of a window."""
    window = settings.items("window_kernel_size")
    patches = math.prod(window) if window and all(is_number(side) for side in window) else 0
    inner = patches * _number(settings, *INNER)
    return 4 * width * width + patches * width * inner + inner * width if patches else 0


def _patches(settings: Settings, width: int) -> int:
    """The patch embedding, and positions when they are learned."""
    patch, image = _number(settings, "patch_size") or 14, _number(settings, "image_size")
    pixels = 3 * patch * patch * (_number(settings, "temporal_patch_size") or 1)
    positions = _number(settings, "num_position_embeddings") or (image // patch) ** 2
    positions = 2 * _number(settings, "position_embedding_size") or positions
    tiles = len(settings.items("supported_aspect_ratios"))
    if tiles:  # Llama 3.2 Vision: a table for each arrangement of tiles
        positions *= 1 + (tiles + 1) * (_number(settings, "max_num_tiles") or 1)
    return (pixels + positions) * width


def _audio_front(settings: Settings, width: int) -> int:
    mels = _number(settings, "num_mel_bins", "input_size") or 80
    return 3 * width * (mels + width) + _number(settings, "max_source_positions") * width


def _projector(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    kind = str(config.get("model_type") or "")
    named = (lead for names, lead in PROJECTORS if any(name in kind for name in names))
    rounds = Settings(kind, config, library().get(kind, {})).number("merger_times")
    return _rounds(rounds, widths) if rounds else next(named, _two_layers)(config, settings, widths)


Lead = Callable[[Mapping[str, Any], Settings, tuple[int, int]], int]


def _merger(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    """Patches are laid side by side, two matrices; Qwen3-VL has one such merger more for each deep level."""
    side = _number(settings, "spatial_merge_size") or 2
    merged = widths[0] * side * side
    return (1 + len(settings.items("deepstack_visual_indexes"))) * merged * (merged + widths[1])


def _rounds(times: int, widths: tuple[int, int]) -> int:
    """MiniCPM-V 4.6: four patches side by side through two matrices, so many times; the last leads to the text."""
    merged = 4 * widths[0]
    return times * merged * merged + merged * ((times - 1) * widths[0] + widths[1])


def _glm_merger(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    out, side = widths[1], _number(settings, "spatial_merge_size") or 2
    return out * (widths[0] * side * side + out + 3 * _number(settings, *INNER))


def _patch_merger(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    side = config.get("spatial_merge_size") or 2
    return widths[0] * widths[0] * side * side + _two_layers(config, settings, widths)


def _shuffled(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    return 4 * widths[0] * widths[1] + widths[1] * widths[1]


def _aligned(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    """Cohere: patches side by side into a gated middle."""
    middle, side = config.get("alignment_intermediate_size") or 36864, config.get("downsample_factor") or 2
    return int(middle * (widths[0] * side * side + widths[1] / 2))


def _resampler(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    return widths[0] * widths[1] + 5 * widths[1] * widths[1]


def _one_matrix(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    return (_number(settings, "vision_output_dim") or widths[0]) * widths[1]


def _wide(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    """Cosmos 3 Edge: patches side by side into a wide middle."""
    side = _number(settings, "spatial_merge_size") or 2
    middle = config.get("projector_hidden_size") or 11520
    return int(middle * (widths[0] * side * side + widths[1]))


def _adapter(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    """Llama 4: a two-layer adapter in the tower, then one matrix."""
    inner, out = _number(settings, "projector_input_dim"), _number(settings, "projector_output_dim")
    return (
        _number(settings, "intermediate_size") * inner
        + inner * out
        + (_number(settings, "vision_output_dim") or out) * widths[1]
    )


def _two_layers(config: Mapping[str, Any], settings: Settings, widths: tuple[int, int]) -> int:
    return widths[0] * widths[1] + widths[1] * widths[1]


PROJECTORS: tuple[tuple[tuple[str, ...], Lead], ...] = (
    (("glm4v", "glm46v", "glm_ocr"), _glm_merger),
    (("qwen2_audio", "gemma", "mllama", "shieldgemma", "paligemma", "granite_speech"), _one_matrix),
    (("qwen", "kimi", "paddleocr", "keye"), _merger),
    (("mistral3", "lighton"), _patch_merger),
    (("internvl", "idefics3", "smolvlm", "voxtral"), _shuffled),
    (("llama4",), _adapter),
    (("cosmos3_edge",), _wide),
    (("aya_vision", "cohere2_vision"), _aligned),
    (("minicpmv", "minicpmo"), _resampler),
)


def _number(settings: Settings, *names: str) -> int:
    value = settings.get(*names)
    value = value[0] if isinstance(value, list) and value else value
    return value if is_number(value) else 0
