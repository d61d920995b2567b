"""Tells an adapter of another base by its shapes, before the engine or a merge would: reads headers only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from windlass_sizing.files.tensor_names import adapter_tensors
from windlass_sizing.files.weight_files import adapter_file
from windlass_sizing.model import lora_config as config
from windlass_sizing.model import lora_tensors
from windlass_sizing.quantization.engine import ENGINE

from windlass.engine.adapters import names, tensor_file
from windlass.engine.adapters.model import Adapter

PLAIN = ("F32", "F16", "BF16", "F64")
"""A packed or quantized tensor has a shape of its own."""
SUFFIX = ".safetensors"


def checked(adapters: Iterable[Adapter], base: Iterable[Path], architecture: str) -> tuple[Adapter, ...]:
    """The adapters, with the problem of each that does not fit; what cannot be told is left to the engine.

    `architecture`: the class that the base's config.json names; it decides which embeddings adapters may change.
    """
    adapters = tuple(adapters)
    if not any(adapter.rank for adapter in adapters):
        return adapters
    shapes = {name: shape for file in base for name, shape in _shapes(file).items()}
    return tuple(_checked(_named(adapter, architecture), shapes) for adapter in adapters)


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


def _named(adapter: Adapter, architecture: str) -> Adapter:
    """The adapter, with what the engine says of its tensors' names."""
    file = adapter_file(Path(adapter.path)) if adapter.rank else None
    tensors = adapter_tensors(file) if file else frozenset[str]()
    if isinstance(tensors, str):
        return replace(adapter, problem=adapter.problem or tensors, merge_problem=adapter.merge_problem or tensors)
    by_name, merged = lora_tensors.problems(tensors, architecture, ENGINE.adapter_embeddings.get(architecture))
    left = lora_tensors.ignored(tensors, ENGINE.adapter_ignored.get(architecture, ()))
    ignored = f"{left} of adapter {adapter.name}" if left else ""
    by_name, merged = adapter.problem or by_name, adapter.merge_problem or merged
    return replace(adapter, ignored=ignored, problem=by_name, merge_problem=merged)


def _shapes(file: Path) -> dict[str, names.Shape]:
    """Of the tensors that have a shape of their module's."""
    return {tensor.name: tensor.shape for tensor in _header(file) if tensor.dtype in PLAIN}


def _header(file: Path) -> tuple[tensor_file.Tensor, ...]:
    """Of a safetensors file; nothing of any other, or of one that its reader will find broken."""
    try:
        return tensor_file.read_header(file) if file.suffix == SUFFIX else ()
    except (OSError, ValueError):
        return ()
