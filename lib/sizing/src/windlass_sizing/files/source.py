"""Reads what is known of a model for a plan: a directory, whole or not, or a config.json alone.

Softer than `checkpoint.inspect`, which asks whether a directory can be served: a plan is made before the weights are
there. Real bytes are taken where whole files or an index tell them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.files.checkpoint import SIDE_QUANTIZATION, beside_config, from_files
from windlass_sizing.files.weight_files import INDEXES
from windlass_sizing.files.weights import Weights, read_weights
from windlass_sizing.model.facts import ModelFacts, from_config

CONFIG = "config.json"


def read_facts(path: Path) -> ModelFacts:
    """The facts of a model directory or a config.json; SizingError with a sentence when there are none."""
    file = path / CONFIG if path.is_dir() else path
    if not file.is_file():
        what = f"{path} has no {CONFIG}" if path.is_dir() else f"{path} is not there"
        way = documents.without_config(path) or f"name a model directory or its {CONFIG}"
        raise CheckpointError("ConfigMissing", f"{what}; {way}")
    config = _object(file)
    directory = file.parent
    _lay_quantization(config, directory)
    weights = _stored(directory) if file.name == CONFIG else None
    return from_files(config, weights) if weights else from_config(config)


def _object(file: Path) -> dict[str, Any]:
    try:
        value = documents.parse(documents.read(file, documents.INDEX_BYTES_MAX))
    except (OSError, ValueError) as error:
        raise CheckpointError("ConfigBroken", f"{file} cannot be read as JSON: {error}; copy it again") from error
    if not isinstance(value, dict):
        raise CheckpointError("ConfigBroken", f"{file} is not a JSON object; copy the model's own file")
    return value


def _lay_quantization(config: dict[str, Any], directory: Path) -> None:
    beside = next((directory / name for name in SIDE_QUANTIZATION if (directory / name).is_file()), None)
    if beside and "quantization_config" not in config:
        config["quantization_config"] = beside_config(beside.name, _object(beside))


def _stored(directory: Path) -> Weights | None:
    """What the weight files say: whole files, else the bytes that the index gives, else nothing."""
    try:
        return read_weights(directory)
    except (CheckpointError, OSError):
        size = _indexed(directory)
    return Weights(0, size, None) if size else None


def _indexed(directory: Path) -> int | None:
    for name in INDEXES:
        if (directory / name).is_file():
            metadata = _object(directory / name).get("metadata")
            size = metadata.get("total_size") if isinstance(metadata, dict) else None
            return int(size) if isinstance(size, int | float) and size > 0 else None
    return None
