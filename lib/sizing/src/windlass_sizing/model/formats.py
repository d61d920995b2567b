"""One format of packed weights: bits a weight with scales and zero points, as each method writes them down.

A checkpoint has one format, or several with the modules that each is for. `quantized.py` calls it; it reads settings
alone and knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# bits a weight when the settings do not say
METHOD_BITS: dict[str, float] = {
    "fp8": 8,
    "modelopt": 8,
    "fbgemm_fp8": 8,
    "gptq": 4,
    "awq": 4,
    "auto-round": 4,
    "mxfp4": 4,
    "gguf": 4.5,
    "bitnet": 2,
    "hqq": 4,
    "quark": 8,
    "torchao": 8,
    "compressed-tensors": 8,
    "bitsandbytes": 8,
}
# ModelOpt: by a part of an algorithm's name, the bits of a weight and the group that shares a scale of eight bits;
# 0: no group. The first part that is in the name counts: W4A16_NVFP4 stores NVFP4.
ALGORITHMS: dict[str, tuple[float, int]] = {
    "NVFP4": (4, 16),
    "MXFP4": (4, 32),
    "MXFP8": (8, 32),
    "W4A": (4, 64),
    "INT4": (4, 64),
    "FP8": (8, 0),
    "INT8": (8, 0),
    "W8A8": (8, 0),
}
CLASSES = ("Linear", "FusedMoE")  # targets that are classes of modules and no names
GROUPS = ("group_size", "q_group_size")
BITS = ("bits", "w_bit", "weight_bits")
WORDS_DEEP = 6
"""Levels of a nested description: no published one has more than four."""
WEIGHT_WORD = re.compile(r"(?:int|fp|float)(\d{1,2})_?weight", re.IGNORECASE)
ANY_WORD = re.compile(r"(?:int|fp|float|nf)(\d{1,2})", re.IGNORECASE)
TYPE_KEYS = ("weight_dtype", "dtype", "_type", "_data", "weight")
"""Of a nested description of a type, in the order in which they tell of the weights."""


@dataclass(frozen=True, slots=True)
class Format:
    """Bits of a weight with its scales, and the modules that have it; None: all that no other format names."""

    stored_bits: float
    modules: tuple[str, ...] | None = None


def nominal_bits(method: str, settings: Mapping[str, Any]) -> float:
    """Bits of a weight as people say it: of several formats the fewest."""
    algorithm = _algorithm(settings)
    if algorithm:
        return algorithm[0]
    if settings.get("load_in_4bit") or settings.get("_load_in_4bit"):
        return 4
    several = [_bits_of(weights) for _, weights in _groups(settings)]
    several += [found[0] for one in _layers(settings).values() if (found := _algorithm(one))]
    if several:
        return min(several)
    return next((float(settings[key]) for key in BITS if isinstance(settings.get(key), int)), _bits(method, settings))


def read(method: str, settings: Mapping[str, Any]) -> list[Format]:
    """The formats of a checkpoint: those for modules by name, then the one for all others, if there is one."""
    if not _algorithm(settings) and _layers(settings):
        return _by_layer(settings)
    if not _algorithm(settings) and _groups(settings):
        return sorted(_by_group(settings), key=lambda one: one.modules is None)
    bits = nominal_bits(method, settings)
    return [*_exceptions(method, settings, bits), Format(bits + _scale_bits(method, settings, bits))]


def _bits(method: str, settings: Mapping[str, Any]) -> float:
    """By the words of a nested description (torchao, Quark), else what the method usually has."""
    nested = (settings.get(name) for name in ("quant_type", "global_quant_config"))
    return next((bits for one in nested if (bits := _words_bits(one))), METHOD_BITS.get(method, 8))


def _words_bits(description: object, depth: int = 0) -> float | None:
    if isinstance(description, str):
        found = WEIGHT_WORD.search(description) or ANY_WORD.search(description)
        return float(found[1]) if found else None
    if not isinstance(description, Mapping) or depth > WORDS_DEEP:
        return None
    keys = (*(key for key in TYPE_KEYS if key in description), *description)
    return next((bits for key in keys if (bits := _words_bits(description[key], depth + 1))), None)


def _algorithm(settings: Mapping[str, Any]) -> tuple[float, int] | None:
    name = str(settings.get("quant_algo") or "").upper()
    return next((found for part, found in ALGORITHMS.items() if part in name), None)


def _layers(settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """ModelOpt: the algorithm of each module by its path."""
    found = settings.get("quantized_layers")
    named = found.items() if isinstance(found, Mapping) else ()
    return {str(name): one for name, one in named if isinstance(one, Mapping)}


def _by_layer(settings: Mapping[str, Any]) -> list[Format]:
    by_bits: dict[float, list[str]] = {}
    for name, one in _layers(settings).items():
        algorithm = _algorithm(one)
        if algorithm:
            bits, group = algorithm
            size = one.get("group_size")
            group = size if isinstance(size, int) and size > 0 and group else group
            by_bits.setdefault(bits + (8 / group if group else 0), []).append(name)
    return [Format(bits, tuple(names)) for bits, names in by_bits.items()]


def _groups(settings: Mapping[str, Any]) -> list[tuple[list[str], Mapping[str, Any]]]:
    """compressed-tensors: what each group of modules is stored in."""
    found = settings.get("config_groups")
    groups = found.values() if isinstance(found, Mapping) else ()
    return [
        ([str(target) for target in group.get("targets") or ["Linear"]], group["weights"])
        for group in groups
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping)
    ]


def _by_group(settings: Mapping[str, Any]) -> Iterator[Format]:
    for targets, weights in _groups(settings):
        names = tuple(target for target in targets if target not in CLASSES)
        if names:
            yield Format(_group_bits(weights), names)
        if len(names) < len(targets):
            yield Format(_group_bits(weights))


def _bits_of(weights: Mapping[str, Any]) -> float:
    return float(weights.get("num_bits") or 8)


def _group_bits(weights: Mapping[str, Any]) -> float:
    bits, group = _bits_of(weights), weights.get("group_size")
    if isinstance(group, int) and group > 0:
        scale = 8 if weights.get("type") == "float" else 16
        return bits + (scale + (0 if weights.get("symmetric", True) else bits)) / group
    return bits + _block_bits(weights.get("block_structure"))


def _exceptions(method: str, settings: Mapping[str, Any], bits: float) -> Iterator[Format]:
    """Modules with bits of their own: GPTQ's `dynamic`, AutoRound's `extra_config`, torchao's and Quark's by name."""
    rules = settings.get("dynamic")
    for rule, own in rules.items() if isinstance(rules, Mapping) else ():
        if not str(rule).startswith("-:") and isinstance(own, Mapping):
            yield _exception(method, settings, own, f"re:{str(rule).removeprefix('+:')}", bits)
    for name in ("extra_config", "layer_quant_config"):
        named = settings.get(name)
        for module, own in named.items() if isinstance(named, Mapping) else ():
            if isinstance(own, Mapping):
                yield _exception(method, settings, own, str(module), bits)


def _exception(method: str, settings: Mapping[str, Any], own: Mapping[str, Any], module: str, usual: float) -> Format:
    named = next((float(own[key]) for key in BITS if isinstance(own.get(key), int)), None)
    bits = named or _words_bits(own) or usual
    return Format(bits + _scale_bits(method, {**settings, **own}, bits), (module,))


def _scale_bits(method: str, settings: Mapping[str, Any], bits: float) -> float:
    """Bits of scales and zero points for each weight."""
    algorithm = _algorithm(settings)
    if algorithm:
        return 8 / algorithm[1] if algorithm[1] else 0
    if method == "mxfp4":
        return 8 / 32
    if method == "bitsandbytes":
        if bits > 4:
            return 0
        return 8 / 64 + 32 / (64 * 256) if settings.get("bnb_4bit_use_double_quant") else 32 / 64
    group = _group_size(settings)
    if method in ("awq", "torchao") and not group:
        group = 128
    if method == "quark":
        return 8 / group if group > 0 and bits < 8 else 0
    return (16 + bits) / group if group > 0 and bits < 8 else _block_bits(settings.get("weight_block_size"))


def _group_size(description: Mapping[str, Any], depth: int = 0) -> int:
    """The weights that share a scale, wherever a nested description says it; 0 where none does."""
    own = next((description[key] for key in GROUPS if isinstance(description.get(key), int)), 0)
    if own or depth > WORDS_DEEP:
        return int(own)
    inner = (description.get(name) for name in ("quant_type", "default", "_data", "global_quant_config", "weight"))
    return next((size for one in inner if isinstance(one, Mapping) and (size := _group_size(one, depth + 1))), 0)


def _block_bits(block: object) -> float:
    """A float32 scale for each block of rows and columns."""
    if isinstance(block, list) and len(block) == 2 and all(isinstance(side, int) and side > 0 for side in block):
        return 32 / float(block[0] * block[1])
    return 0
