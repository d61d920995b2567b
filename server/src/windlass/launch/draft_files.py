"""Looks at the directory of a draft model or a head for `speculation`: facts and vocabulary. Reads only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from windlass_sizing.errors import FactsError
from windlass_sizing.files import documents
from windlass_sizing.files.tensor_names import tensor_names
from windlass_sizing.model import drafter
from windlass_sizing.model.facts import ModelFacts, from_config

from windlass.engine.startup import files
from windlass.engine.startup.model_json import check_files, read_json
from windlass.errors import ModelError
from windlass.launch.model import DraftFiles

TOKENIZER = "tokenizer.json"
TOKENIZER_BYTES_MAX = 128 * documents.MIB
"""The largest published ones are near 35 MiB."""


def look(path: str, served: str) -> DraftFiles:
    """What lies in `path`, beside the model in `served`; `problem` says why it can draft for nothing."""
    directory = Path(path)
    try:
        check_files(directory)
        config = read_json(directory / "config.json", flag="--speculative-model")
    except ModelError as error:
        return DraftFiles(path, served, problem=f"what drafts cannot be read: {error}")
    weights = files.find(directory)
    if not weights:
        return DraftFiles(path, served, problem=f"{path} cannot draft: it {files.missing(directory)}")
    names = tensor_names(file.path for file in weights)
    return DraftFiles(
        path,
        served,
        _facts(lambda: from_config(read_json(Path(served) / "config.json", flag="--model"))),
        _facts(lambda: drafter.read(config, drafter.Stored(names))),
        has_same_vocabulary=has_same_vocabulary(directory, Path(served)),
    )


def has_same_vocabulary(one: Path, other: Path) -> bool | None:
    """Whether two tokenizers number the same tokens; None where a file does not tell. Added tokens are not compared."""
    first, second = vocabulary(one / TOKENIZER), vocabulary(other / TOKENIZER)
    return None if first is None or second is None else first == second


def vocabulary(file: Path) -> object:
    """The tokens with their numbers as `tokenizer.json` has them; None when there is none."""
    try:
        text = documents.read(file, TOKENIZER_BYTES_MAX).decode("utf-8", "replace")
        _, key, rest = text.partition('"vocab":')
        return json.JSONDecoder().raw_decode(rest.lstrip())[0] if key else None
    except (OSError, ValueError, RecursionError):
        return None


def _facts(read: Callable[[], ModelFacts]) -> ModelFacts | None:
    """None for a kind of model that the formula does not know: the engine decides then."""
    try:
        return read()
    except FactsError:
        return None
