"""Which quantization a checkpoint already has, and how many bits a weight takes.

`config.json` says it under `quantization_config`; ModelOpt and older GPTQ exports say it in a file beside it, which
`checkpoint.py` lays into the configuration under the same key before the facts are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# bits a weight when the settings do not say
METHOD_BITS: dict[str, float] = {
    "fp8": 8,
    "modelopt": 8,
    "fbgemm_fp8": 8,
    "gptq": 4,
    "awq": 4,
    "mxfp4": 4.25,
    "gguf": 4.5,
    "compressed-tensors": 8,
    "bitsandbytes": 8,
}
ALGORITHM_BITS: dict[str, float] = {"NVFP4": 4.5, "FP8": 8, "W4A16_AWQ": 4, "W4A8_AWQ": 4, "INT8_SQ": 8}


def quantization_of(config: Mapping[str, Any]) -> tuple[str | None, float | None]:
    """The checkpoint's method and its bits a weight; (None, None) for plain weights."""
    settings = config.get("quantization_config")
    if not isinstance(settings, Mapping):
        return None, None
    if isinstance(settings.get("quantization"), Mapping):
        settings = {"quant_method": "modelopt", **settings["quantization"]}
    method = str(settings.get("quant_method") or ("modelopt" if settings.get("quant_algo") else "gptq"))
    return method, _bits(method, settings)


def _bits(method: str, settings: Mapping[str, Any]) -> float | None:
    if settings.get("quant_algo"):
        return ALGORITHM_BITS.get(str(settings["quant_algo"]), 8)
    if settings.get("load_in_4bit") or settings.get("_load_in_4bit"):
        return 4
    for key in ("bits", "w_bit"):
        if isinstance(settings.get(key), int):
            return float(settings[key])
    return METHOD_BITS.get(method)
