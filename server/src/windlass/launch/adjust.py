"""Defaults that depend on the model or the machine, and values that this machine cannot honour. Pure.

Each step is a function of what is settled so far; it returns the settings that it changes and what to tell about it.
A step never overrules what the user said where the engine could do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from windlass.launch.flags import LENGTH_CUT_TOKENS
from windlass.launch.model import Machine, ModelFiles, Setting

Settings: TypeAlias = dict[str, Setting]
Changes: TypeAlias = tuple[Settings, list[str]]
Step: TypeAlias = Callable[[Settings, Machine, ModelFiles, Mapping[str, str]], Changes]

BATCH_TOKENS_MIN = 2048
FLOAT16_OVERFLOWS = ("gemma2", "gemma3", "gemma3_text", "glm4")
"""The engine refuses float16 for these model types."""
KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"
DEFAULT = "default"


def _changed(name: str, value: str | int | bool, why: str) -> Changes:
    return {name: Setting(name, value, DEFAULT, why)}, []


def _forced(name: str, value: int | bool, why: str, said: Setting | None, told: str) -> Changes:
    """A value that the machine dictates; told when the user had said another."""
    if said is None or said.source == DEFAULT:
        return _changed(name, value, why)
    return {name: Setting(name, value, "this machine", why)}, [f"--{name} {said.shown} ({said.source}) {told}"]


def _length(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    own = model.max_model_len
    if "max-model-len" in settings or own is None:
        return {}, []
    if own > LENGTH_CUT_TOKENS:
        return _changed("max-model-len", LENGTH_CUT_TOKENS, f"the model's own {own}, cut; --max-model-len takes more")
    return _changed("max-model-len", own, "the model's own")


def _dtype(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    if settings["dtype"].source != DEFAULT or model.model_type not in FLOAT16_OVERFLOWS:
        return {}, []
    return _changed("dtype", "bfloat16", f"{model.model_type} overflows in float16")


def _gpus(settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]) -> Changes:
    said = settings.get("tensor-parallel-size")
    if machine.engine == "cpu" and (said is None or said.value != 1):
        told = "is served as 1: this is the CPU image, its GPUs are not computed on"
        return _forced("tensor-parallel-size", 1, "the CPU engine computes in one process", said, told)
    if said:
        return {}, []
    return _changed("tensor-parallel-size", max(1, len(machine.gpus)), "the GPUs of this container")


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
    said = settings["enforce-eager"]
    if machine.engine != "cpu" or machine.has_compiler or said.value:
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


STEPS: tuple[Step, ...] = (_length, _dtype, _gpus, _prefix_caching, _batch, _eager, _memory)
