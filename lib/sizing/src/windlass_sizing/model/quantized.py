"""Which quantization a checkpoint already has, which of its weights are packed, and in how many bits with their scales.

`config.json` says it under `quantization_config`; ModelOpt and older GPTQ exports say it in a file beside it, which
`checkpoint.py` lays into the configuration under the same key before the facts are read. `formats.py` reads what one
format is; here is which modules have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from windlass_sizing.model import formats
from windlass_sizing.model.formats import Format
from windlass_sizing.model.keys import TEXT_PARTS
from windlass_sizing.model.modules import Modules, shares
from windlass_sizing.model.params import EXPERT, HEAD, LINEAR, TOWER

DECODER_ONLY = ("gptq", "awq", "mxfp4", "auto-round", "gptq_marlin", "awq_marlin")  # a tower stays as it is
# What the engine calls ModelOpt's reader of an algorithm with this in its name; it has one for each of them.
MODELOPT = "modelopt"
MODELOPT_READERS: dict[str, str] = {"FP4": "modelopt_fp4", "MXFP8": "modelopt_mxfp8", "MIXED": "modelopt_mixed"}
UNNAMED = "unnamed"
"""A `quantization_config` without `quant_method`, as MLX writes it: the engine takes the model for unquantized."""
LISTS = (
    *("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "exclude", "llm_int8_skip_modules"),
)
PLAIN_BITS = 16
MXFP4 = "mxfp4"
READ_AS_MXFP4 = (
    ("mxfp4-pack-quantized", "KimiK3ForConditionalGeneration"),
    ("mxfp4-pack-quantized", "KimiK3MTPModel"),
)
"""Formats of compressed-tensors that the engine gives another reader, by class (vLLM 0.32, `models/config.py`)."""
KV_ALGORITHMS: dict[str, float] = {"FP8": 8, "NVFP4": 4.5}
"""ModelOpt's names of a KV cache's format, and the bits of a value with its scale."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A checkpoint's own quantization."""

    method: str
    bits: float  # of a weight, as people say it
    packed: Mapping[str, tuple[tuple[float, float], ...]]  # by role: shares of it, and their bits with scales
    kv_bits: float | None = None  # of a value of the KV cache, where the checkpoint asks for a format

    def stored_bytes(self, roles: Mapping[str, int], plain_bytes: float) -> int:
        """The bytes of a checkpoint with so many parameters in each role."""
        total = 0.0
        for role, params in roles.items():
            packed = self.packed.get(role, ())
            plain = 1 - sum(share for share, _ in packed)
            total += params * (plain * plain_bytes + sum(share * bits for share, bits in packed) / 8)
        return round(total)


def packing_of(config: Mapping[str, Any], places: Mapping[str, frozenset[int]], model_type: str = "") -> Packing | None:
    """The checkpoint's own quantization; None for plain weights. `places`: the layers that have each role."""
    settings = _settings(config)
    if not settings:
        return None
    if isinstance(settings.get("quantization"), Mapping):
        settings = {"quant_method": MODELOPT, **settings["quantization"]}
    method = _method(settings)
    bits = formats.nominal_bits(method, settings)
    reader = MXFP4 if (settings.get("format"), *_classes(config)) in READ_AS_MXFP4 else method
    return Packing(reader, bits, _packed(config, method, settings, places, model_type), _kv_bits(method, settings))


def _classes(config: Mapping[str, Any]) -> tuple[str, ...]:
    named = config.get("architectures")
    return tuple(map(str, named)) if isinstance(named, list) else ()


def _method(settings: Mapping[str, Any]) -> str:
    """The name of the engine's reader: ModelOpt writes one `quant_method` for all of its algorithms."""
    algorithm = str(settings.get("quant_algo") or "").upper()
    method = str(settings.get("quant_method") or (MODELOPT if algorithm else UNNAMED))
    if method != MODELOPT:
        return method
    return next((reader for part, reader in MODELOPT_READERS.items() if part in algorithm), MODELOPT)


def _settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, wherever they stand: some vision models have them in the language part."""
    parts = [config, *(config[name] for name in TEXT_PARTS if isinstance(config.get(name), Mapping))]
    found = (part.get(name) for part in parts for name in ("quantization_config", "compression_config"))
    return next((settings for settings in found if isinstance(settings, Mapping) and settings), {})


def _packed(
    config: Mapping[str, Any],
    method: str,
    settings: Mapping[str, Any],
    places: Mapping[str, frozenset[int]],
    model_type: str,
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Of every role that is packed, the share of each format and its bits with scales."""
    every = formats.read(method, settings)
    exact = method == "compressed-tensors"
    modules = [None if one.modules is None else Modules(one.modules, exact=exact) for one in every]
    found = shares(Modules(_left_out(settings, every), exact=exact), modules, places, model_type)
    packed = {role: _of(found[role], every) for role in _packs(method)}
    # A class of modules is never the head's: checkpoints pack it where they name it.
    packed[HEAD] = _of(
        found[HEAD], [replace(one, stored_bits=PLAIN_BITS) if one.modules is None else one for one in every]
    )
    if config.get("expert_dtype") == "fp4":  # DeepSeek V4: the experts alone, in blocks of 32
        packed[EXPERT] = ((1.0, 4 + 8 / 32),)
    return packed


def _of(found: tuple[float, ...], every: list[Format]) -> tuple[tuple[float, float], ...]:
    pairs = zip(found, every, strict=True)
    return tuple((share, one.stored_bits) for share, one in pairs if share and one.stored_bits < PLAIN_BITS)


def _packs(method: str) -> tuple[str, ...]:
    if method == MXFP4:
        return (EXPERT,)
    return (*LINEAR, *(() if method in DECODER_ONLY else (TOWER,)))


def _left_out(settings: Mapping[str, Any], every: Iterable[Format]) -> list[str]:
    """The modules that stay plain: lists under many names, and GPTQ's rules that begin with a minus."""
    found = (settings.get(name) for name in LISTS)
    listed = [str(one) for items in found if isinstance(items, list) for one in items]
    rules = settings.get("dynamic")
    minus = [f"re:{rule[2:]}" for rule in rules if str(rule).startswith("-:")] if isinstance(rules, Mapping) else []
    return [*listed, *minus]


def _kv_bits(method: str, settings: Mapping[str, Any]) -> float | None:
    """Bits of the KV cache that the engine takes from the checkpoint where its own flag is `auto`."""
    scheme = settings.get("kv_cache_scheme")
    if method == "compressed-tensors":
        return 8 if isinstance(scheme, Mapping) and scheme else None
    if not method.startswith(MODELOPT):
        return None
    if not isinstance(scheme, Mapping):
        return KV_ALGORITHMS.get(str(scheme or settings.get("kv_cache_quant_algo") or "").upper())
    if scheme.get("type") != "float":
        return None
    is_fp8 = scheme.get("num_bits") == 8 and scheme.get("dynamic") is False
    return KV_ALGORITHMS["FP8"] if is_fp8 else KV_ALGORITHMS["NVFP4"] if scheme.get("num_bits") == 4 else None


def nominal(packing: Packing | None) -> tuple[str | None, float | None]:
    """Method and bits, as facts carry them."""
    return (packing.method, packing.bits) if packing else (None, None)
