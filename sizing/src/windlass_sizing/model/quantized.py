"""Which quantization a checkpoint already has, which of its weights are packed, and in how many bits with their scales.

`config.json` says it under `quantization_config`; ModelOpt and older GPTQ exports say it in a file beside it, which
`checkpoint.py` lays into the configuration under the same key before the facts are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass_sizing.model.keys import TEXT_PARTS
from windlass_sizing.model.params import EXPERT, LINEAR, TOWER
from windlass_sizing.model.skipped import plain_shares, roles_of

DECODER_ONLY = ("gptq", "awq", "mxfp4", "auto-round", "gptq_marlin", "awq_marlin")  # a tower stays as it is
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
# ModelOpt: bits of a weight and the group that shares a scale of eight bits; 0: no group.
ALGORITHMS: dict[str, tuple[float, int]] = {
    "NVFP4": (4, 16),
    "NVFP4_AWQ": (4, 16),
    "MXFP8": (8, 32),
    "FP8": (8, 0),
    "FP8_PB_WO": (8, 0),
    "W4A16_AWQ": (4, 64),
    "W4A8_AWQ": (4, 64),
    "INT8_SQ": (8, 0),
    "W8A8_SQ_PER_CHANNEL": (8, 0),
}
# What the engine calls ModelOpt's reader of an algorithm with this in its name; it has one for each of them.
MODELOPT = "modelopt"
MODELOPT_READERS: dict[str, str] = {"FP4": "modelopt_fp4", "MXFP8": "modelopt_mxfp8", "MIXED": "modelopt_mixed"}


@dataclass(frozen=True, slots=True)
class Packing:
    """A checkpoint's own quantization."""

    method: str
    bits: float  # of a weight, as people say it
    stored_bits: Mapping[str, float]  # with scales, by role; a role that is not here is stored plainly
    plain_shares: Mapping[str, float]  # of a role, what its settings leave out

    def stored_bytes(self, roles: Mapping[str, int], plain_bytes: float) -> int:
        """The bytes of a checkpoint with so many parameters in each role."""
        total = 0.0
        for role, params in roles.items():
            share = self.plain_shares.get(role, 0.0) if role in self.stored_bits else 1.0
            total += params * (share * plain_bytes + (1 - share) * self.stored_bits.get(role, 0) / 8)
        return round(total)


def packing_of(config: Mapping[str, Any], places: Mapping[str, frozenset[int]]) -> Packing | None:
    """The checkpoint's own quantization; None for plain weights. `places`: the layers that have each role."""
    settings = _settings(config)
    if not settings:
        return None
    if isinstance(settings.get("quantization"), Mapping):
        settings = {"quant_method": MODELOPT, **settings["quantization"]}
    method = _method(settings)
    bits = _bits(method, settings)
    stored = _stored_bits(config, method, settings, bits)
    return Packing(method, bits, stored, plain_shares(_left_out(settings), places))


def _method(settings: Mapping[str, Any]) -> str:
    """The name of the engine's reader: ModelOpt writes one `quant_method` for all of its algorithms."""
    algorithm = str(settings.get("quant_algo") or "").upper()
    method = str(settings.get("quant_method") or (MODELOPT if algorithm else "gptq"))
    if method != MODELOPT:
        return method
    return next((reader for part, reader in MODELOPT_READERS.items() if part in algorithm), MODELOPT)


def _settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, wherever they stand: some vision models have them in the language part."""
    parts = [config, *(config[name] for name in TEXT_PARTS if isinstance(config.get(name), Mapping))]
    found = (part.get(name) for part in parts for name in ("quantization_config", "compression_config"))
    return next((settings for settings in found if isinstance(settings, Mapping) and settings), {})


def _left_out(settings: Mapping[str, Any]) -> list[str]:
    names = (
        "modules_to_not_convert",
        "ignore",
        "ignored_layers",
        "exclude_modules",
        "exclude",
        "llm_int8_skip_modules",
    )
    found = (settings.get(name) for name in names)
    return [str(one) for listed in found if isinstance(listed, list) for one in listed]


def _bits(method: str, settings: Mapping[str, Any]) -> float:
    if settings.get("quant_algo") in ALGORITHMS:
        return ALGORITHMS[str(settings["quant_algo"])][0]
    if settings.get("load_in_4bit") or settings.get("_load_in_4bit"):
        return 4
    groups = _groups(settings)
    if groups:
        return min(float(weights.get("num_bits") or 8) for _, weights in groups)
    for key in ("bits", "w_bit", "weight_bits"):
        if isinstance(settings.get(key), int):
            return float(settings[key])
    return METHOD_BITS.get(method, 8)


def _stored_bits(config: Mapping[str, Any], method: str, settings: Mapping[str, Any], bits: float) -> dict[str, float]:
    """Bits with scales of every role that is packed."""
    if method == "mxfp4":
        return {EXPERT: bits + 8 / 32}
    packed = (*LINEAR, *(() if method in DECODER_ONLY else (TOWER,)))
    groups = _groups(settings)
    if groups and settings.get("quant_algo") not in ALGORITHMS:
        return {
            role: _group_bits(weights)
            for targets, weights in groups
            for role in packed
            if "Linear" in targets or role in roles_of(targets)
        }
    found = dict.fromkeys(packed, bits + _scale_bits(method, settings, bits))
    if config.get("expert_dtype") == "fp4":  # DeepSeek V4: the experts alone, in blocks of 32
        found[EXPERT] = 4 + 8 / 32
    return found


def _groups(settings: Mapping[str, Any]) -> list[tuple[list[str], Mapping[str, Any]]]:
    """compressed-tensors: what each group of modules is stored in."""
    found = settings.get("config_groups")
    groups = found.values() if isinstance(found, Mapping) else ()
    return [
        ([str(target) for target in group.get("targets") or ["Linear"]], group["weights"])
        for group in groups
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping)
    ]


def _group_bits(weights: Mapping[str, Any]) -> float:
    bits, group = float(weights.get("num_bits") or 8), weights.get("group_size")
    if isinstance(group, int) and group > 0:
        scale = 8 if weights.get("type") == "float" else 16
        return bits + (scale + (0 if weights.get("symmetric", True) else bits)) / group
    return bits + _block_bits(weights.get("block_structure"))


def _scale_bits(method: str, settings: Mapping[str, Any], bits: float) -> float:
    """Bits of scales and zero points for each weight."""
    algorithm = ALGORITHMS.get(str(settings.get("quant_algo")))
    if algorithm:
        return 8 / algorithm[1] if algorithm[1] else 0
    if method == "bitsandbytes":
        if bits > 4:
            return 0
        return 8 / 64 + 32 / (64 * 256) if settings.get("bnb_4bit_use_double_quant") else 32 / 64
    group = next((settings[key] for key in ("group_size", "q_group_size") if isinstance(settings.get(key), int)), 0)
    if method == "awq" and not group:
        group = 128
    return (16 + bits) / group if group > 0 and bits < 8 else _block_bits(settings.get("weight_block_size"))


def _block_bits(block: object) -> float:
    """A float32 scale for each block of rows and columns."""
    if isinstance(block, list) and len(block) == 2 and all(isinstance(side, int) and side > 0 for side in block):
        return 32 / float(block[0] * block[1])
    return 0


def nominal(packing: Packing | None) -> tuple[str | None, float | None]:
    """Method and bits, as facts carry them."""
    return (packing.method, packing.bits) if packing else (None, None)
