"""Tells an adapter of another base by its shapes, before the engine or a merge would: reads headers only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from windlass_sizing.model import lora_config as config

from windlass.adapters import names, tensor_file
from windlass.adapters.model import Adapter

PLAIN = ("F32", "F16", "BF16", "F64")
"""A packed or quantized tensor has a shape of its own."""
SUFFIX = ".safetensors"


def checked(adapters: Iterable[Adapter], base: Iterable[Path]) -> tuple[Adapter, ...]:
    """The adapters, with the problem of each that does not fit; what cannot be told is left to the engine."""
    adapters = tuple(adapters)
    if not any(adapter.rank for adapter in adapters):
        return adapters
    shapes = {name: shape for file in base for name, shape in _shapes(file).items()}
    return tuple(_checked(adapter, shapes) for adapter in adapters)


def _checked(adapter: Adapter, base: names.Shapes) -> Adapter:
    numbers = (
        config.read(json.loads((Path(adapter.path) / config.FILE).read_text(encoding="utf-8"))) if adapter.rank else ""
    )
    if isinstance(numbers, str):
        return adapter
    unlike = names.unlike(_shapes(Path(adapter.path) / f"adapter_model{SUFFIX}"), base, numbers)
    if not unlike:
        return adapter
    told = f"does not fit the base: {unlike}"
    return replace(adapter, problem=adapter.problem or told, merge_problem=adapter.merge_problem or told)


def _shapes(file: Path) -> dict[str, names.Shape]:
    """Of a safetensors file; nothing of any other, or of one that its reader will find broken."""
    try:
        tensors = tensor_file.read_header(file) if file.suffix == SUFFIX else ()
    except (OSError, ValueError):
        return {}
    return {tensor.name: tensor.shape for tensor in tensors if tensor.dtype in PLAIN}
