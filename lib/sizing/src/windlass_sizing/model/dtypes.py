"""Bytes of a stored value, by the names that config.json and safetensors headers use."""

from __future__ import annotations

DTYPE_BYTES: dict[str, float] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "half": 2,
    "float": 4,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}

FULL_NAMES = {"half": "float16", "float": "float32"}


def full_name(dtype: str) -> str:
    """The number format without the engine's short forms."""
    return FULL_NAMES.get(dtype, dtype)


def dtype_bytes(name: str) -> float:
    """Bytes of one value; an unknown name counts as 16-bit, the usual case."""
    return DTYPE_BYTES.get(name.removeprefix("torch."), 2)
