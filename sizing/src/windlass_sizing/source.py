"""Reads what is known of a model for a plan: a directory, whole or not, or a config.json alone.

Softer than `checkpoint.inspect`, which asks whether a directory can be served: a plan is made before the weights are
there. Real bytes are taken where whole files or an index tell them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass_sizing import documents
from windlass_sizing.checkpoint import SIDE_QUANTIZATION
from windlass_sizing.errors import CheckpointError
from windlass_sizing.facts import ModelFacts, from_config
from windlass_sizing.methods import SMOOTHQUANT_FILE
from windlass_sizing.weights import INDEXES, read_weights

CONFIG = "config.json"


def read_facts(path: Path) -> ModelFacts:
    """The facts of a model directory or a config.json; SizingError with a sentence when there are none."""
    file = path / CONFIG if path.is_dir() else path
    if not file.is_file():
        what = f"{path} has no {CONFIG}" if path.is_dir() else f"{path} is not there"
        raise CheckpointError("ConfigMissing", f"{what}; name a model directory or its {CONFIG}")
    config = _object(file)
    directory = file.parent
    _lay_quantization(config, directory)
    size, dtype = _stored(directory) if file.name == CONFIG else (None, None)
    plain_dtype = dtype if "quantization_config" not in config else None
    facts = from_config(config, weights_bytes=size, stored_dtype=plain_dtype)
    return replace(facts, has_smoothquant_file=(directory / SMOOTHQUANT_FILE).is_file())


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
        config["quantization_config"] = _object(beside)


def _stored(directory: Path) -> tuple[int | None, str | None]:
    """Bytes and number format of the weights: from whole files, else from the index, else unknown."""
    try:
        weights = read_weights(directory)
    except (CheckpointError, OSError):
        return _indexed(directory), None
    return weights.tensor_bytes, weights.stored_dtype


def _indexed(directory: Path) -> int | None:
    for name in INDEXES:
        if (directory / name).is_file():
            metadata = _object(directory / name).get("metadata")
            size = metadata.get("total_size") if isinstance(metadata, dict) else None
            return int(size) if isinstance(size, int | float) and size > 0 else None
    return None
