"""Defaults that depend on the model or the machine, and values that this machine cannot honour. Pure.

Each step is a function of what is settled so far; it returns the settings that it changes and what to tell about it.
A step never overrules what the user said where the engine could do it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

from windlass_sizing.quantization.decision import default_dtype
from windlass_sizing.settings.flags import LENGTH_CUT_TOKENS
from windlass_sizing.settings.setting import DEFAULT, FROM_FILE, MATCH, Setting

from windlass.errors import UsageError
from windlass.group import arguments
from windlass.launch import cpu, parsing, quantize, templates
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.templates import Row

Settings: TypeAlias = dict[str, Setting]
Changes: TypeAlias = tuple[Settings, list[str]]
Step: TypeAlias = Callable[[Settings, Machine, ModelFiles, Mapping[str, str]], Changes]

BATCH_TOKENS_MIN = 2048
KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"
TEMPORARY = "/tmp"  # noqa: S108 - the one directory that a read-only container lets us write; TMPDIR moves it


def _changed(name: str, value: str | int | bool, why: str) -> Changes:
    return {name: Setting(name, value, DEFAULT, why)}, []


def _forced(name: str, value: int | bool, why: str, said: Setting | None, told: str) -> Changes:
    """A value that the machine dictates; told when the user had said another."""
    if said is None or said.source == DEFAULT:
        return _changed(name, value, why)
    return {name: Setting(name, value, "this machine", why)}, [f"--{name} {said.shown} ({said.source}) {told}"]


def _template(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    row, changed, told = _row(settings, model, environment)
    if row is None:
        return changed, told
    free = {name: value for name, value in row.additions if _is_free(settings, name)}
    auto = settings.get("enable-auto-tool-choice")
    if auto is not None and not auto.value:
        free.pop("tool-call-parser", None)
    if row.guessed and model.has_chat_template:
        free.pop("chat-template", None)
    elif row.guessed and "chat-template" in free:
        told = [*told, f"the format of {row.models} is not published: name the model's own with --chat-template"]
    why = f"conv-template {row.name}"
    changed |= {name: Setting(name, value, MATCH, why) for name, value in free.items()}
    stops, more = _stops(row, settings, model, environment)
    return changed | stops, told + more


def _row(
    settings: Settings, model: ModelFiles, environment: Mapping[str, str]
) -> tuple[Row | None, Settings, list[str]]:
    """The row that was named, else the one that the model's id matches."""
    told: list[str] = []
    if named := settings.get("conv-template"):
        if row := templates.find(str(named.value)):
            return row, {}, []
        sentence = f'{_origin(named)} is "{named.value}", which is no chat template; choose one of '
        sentence += f"{', '.join(templates.BY_NAME)}, or leave it out"
        if named.source != FROM_FILE:
            raise UsageError(sentence)
        # The file came with the model, from a platform that may know other names.
        told = [sentence]
    variable = environment.get("MODEL_ID")
    row = templates.match(variable or model.model_id or "", shows_tools=model.marks.shows_tools)
    if row is None:
        return None, {}, told
    why = f"MODEL_ID is {variable}" if variable else f"model_id of {FROM_FILE} is {model.model_id}"
    return row, {"conv-template": Setting("conv-template", row.name, MATCH, why)}, told


def _origin(named: Setting) -> str:
    return {"flag": f"--{named.name}", FROM_FILE: f"conv_template_name of {FROM_FILE}"}.get(named.source, named.source)


def _is_free(settings: Settings, name: str) -> bool:
    return name not in settings or settings[name].source == DEFAULT


def _stops(row: Row, settings: Settings, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    """More stop tokens reach the engine in a generation_config.json; its command line has no other door for them."""
    tokens = templates.more_stops(row, model.generation, model.vocab_size)
    if not tokens:
        return {}, []
    more = ", ".join(map(str, tokens))
    if said := settings.get("generation-config"):
        return {}, [f"stop tokens {more} of {row.name} are not added: --generation-config is {said.value}"]
    text = templates.generation_config(model.generation, tokens)
    # Named by its content: two engines of one machine share it or do not meet.
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    directory = f"{environment.get('TMPDIR') or TEMPORARY}/windlass-generation-{digest}"
    why = f"conv-template {row.name} also stops at {more}"
    return {"generation-config": Setting("generation-config", directory, MATCH, why)}, []


def _length(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    own = model.max_model_len
    if "max-model-len" in settings or own is None:
        return {}, []
    if own > LENGTH_CUT_TOKENS:
        return _changed("max-model-len", LENGTH_CUT_TOKENS, f"the model's own {own}, cut; --max-model-len takes more")
    return _changed("max-model-len", own, "the model's own")


def _dtype(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    if settings["dtype"].source != DEFAULT:
        return {}, []
    asked = str(settings[quantize.METHOD].value) if quantize.METHOD in settings else None
    dtype, why = default_dtype(asked, *quantize.asked_of(model))
    return _changed("dtype", dtype, why) if why else ({}, [])


def _gpus(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    said = settings.get("tensor-parallel-size")
    if machine.group:
        return {}, []
    if machine.engine == "cpu" and (said is None or said.value != 1):
        told = "is served as 1: this is the CPU image, its GPUs are not computed on"
        return _forced("tensor-parallel-size", 1, "the CPU engine computes in one process", said, told)
    if said:
        return {}, []
    workers, ranks = (max(1, int(str(settings[name].value))) for name in ("worker-num", "sequence-parallel-size"))
    stages = _stages(settings)
    why = "the GPUs of this container" + (f", shared by {workers} workers" if workers > 1 else "")
    why += f", {ranks} for each long prompt" if ranks > 1 else ""
    why += f", in {stages} stages" if stages > 1 else ""
    return _changed("tensor-parallel-size", max(1, len(machine.gpus) // (workers * ranks * stages)), why)


def _stages(settings: Settings) -> int:
    return int(str(settings["pipeline-parallel-size"].value)) if "pipeline-parallel-size" in settings else 1


def _group(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    """In a group: all cards of all members, whichever command starts it."""
    group = machine.group
    stages = _stages(settings)
    if machine.engine == "cpu" and stages > 1:
        raise UsageError(
            f"--pipeline-parallel-size {stages} ends the engine for CPUs at its first request; leave it out"
        )
    if group is None:
        return {}, []
    if (workers := settings.get("worker-num")) and workers.value != 1:
        raise UsageError(
            f"--worker-num {workers.shown} and a group exclude each other; leave it out, and raise replicas"
        )
    tp = arguments.default_tp(group, machine.cards, stages)
    said = settings.get("tensor-parallel-size")
    if machine.engine == "cpu" and (said is None or said.value != tp):
        told = f"is served as {tp}: this is the CPU image, each of {group.size} members computes in one process"
        return _forced("tensor-parallel-size", tp, "one process of each member", said, told)
    if said is None:
        return _changed("tensor-parallel-size", tp, f"the GPUs of {group.size} members")
    arguments.check(group, machine.cards, int(str(said.value)), stages)
    return {}, []


def _prefix_caching(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    if settings["enable-prefix-caching"].source != DEFAULT or not any("V100" in gpu.name for gpu in machine.gpus):
        return {}, []
    return _changed("enable-prefix-caching", False, "a V100 cannot")


def _batch(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    length = settings.get("max-model-len")
    if "max-num-batched-tokens" in settings or length is None or not isinstance(length.value, int):
        return {}, []
    tokens = max(length.value, BATCH_TOKENS_MIN)
    return _changed("max-num-batched-tokens", tokens, f"the context, at least {BATCH_TOKENS_MIN}")


def _eager(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    said = settings.get("enforce-eager")
    if machine.engine != "cpu" or machine.has_compiler or (said and said.value):
        return {}, []
    told = "is served as true: compiling needs a C++ compiler, and this image has none"
    return _forced("enforce-eager", True, "this image has no C++ compiler", said, told)


def _memory(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    if machine.engine != "cpu":
        return {}, []
    if space := environment.get(KV_SPACE):
        said = settings["gpu-memory-utilization"]
        why = f"unused on the CPU: {KV_SPACE} gives the cache {space} GiB"
        return {said.name: Setting(said.name, said.value, said.source, why)}, []
    return {}, [f"{KV_SPACE} is not set: the CPU engine takes its share of all host memory; set it to some GiB"]


STEPS: tuple[Step, ...] = (
    _template, parsing.step, _length, _dtype, quantize.method, _gpus, _group, _prefix_caching, _batch,
    cpu.whole_prompts, _eager, _memory,
)  # fmt: skip
NATIVE_STEPS: tuple[Step, ...] = (quantize.method, _eager, cpu.whole_prompts, _group)
"""With the engine's own commands only what this machine cannot do is changed."""
