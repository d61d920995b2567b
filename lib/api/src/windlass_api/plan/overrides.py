"""The settings that a spec gives to its server, resolved once for the whole plan by the server's own order.

`spec.args` wins over `spec.command`, that over fields that become flags, those over `spec.env`, and that over fields
that a variable overrules. A plan that read `spec.engine` alone would size another server than the one that starts.
The server itself ends with a sentence on a text that cannot be read; the plan goes by the next layer. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from windlass_sizing import engine_flags
from windlass_sizing.engine_flags import EngineFlags
from windlass_sizing.model import context_length
from windlass_sizing.settings.flags import BY_NAME, FLAGS
from windlass_sizing.settings.in_force import Layers, Settings, settings_in_force
from windlass_sizing.settings.parse import split
from windlass_sizing.settings.setting import FIELD, FLAG
from windlass_sizing.settings.values import Value

from windlass_api.crd.v1alpha1 import EngineSpec, LLMServiceSpec

RUN, VLLM = "run", "vllm"
CPU, GPU = "cpu", "gpu"  # where a draft model runs
PREFIX_OFFLOAD = "enable-prefix-cache-offload"
ROWS = tuple(replace(flag, choices=()) for flag in FLAGS)
"""The server's rows; the plan judges number formats and bits itself, with reasons of its own."""
OTHER_PROGRAM = EngineFlags("", {})  # whose flags are not shortened


def _switch(on: bool | None) -> str | None:
    return None if on is None else str(on).lower()


FLAGS_OF_FIELDS: Mapping[str, Callable[[EngineSpec], object | None]] = {
    "use-lookahead": lambda engine: _switch(engine.lookahead.enabled or None),
    "num-speculative-tokens": lambda engine: engine.lookahead.speculative_tokens if engine.lookahead.enabled else None,
    "cpu-draft-worker": lambda engine: {CPU: "true", GPU: "false"}.get(_runs_on(engine)),
    "enable-prefix-caching": lambda engine: _switch(engine.prefix_caching),
    "limit-worker-concurrency": lambda engine: engine.max_concurrency,
    "num-scheduler-steps": lambda engine: engine.scheduler_steps if engine.scheduler_steps > 1 else None,
}
"""Fields that `args` writes as flags whatever the variables say."""


def _runs_on(engine: EngineSpec) -> str:
    return (engine.speculation.runs_on or "") if engine.speculation else ""


def runs_windlass(spec: LLMServiceSpec) -> bool:
    """Whether the container runs `windlass run`; any other command is the user's own and gets no planned flags."""
    return not spec.command or spec.command[0] == RUN


def settings_of(spec: LLMServiceSpec) -> Settings:
    """The settings in force, the engine's words with their flags in full."""
    engine = engine_flags.record() if spec.image.family == VLLM else OTHER_PROGRAM
    fields = {name: str(value) for name, read in FLAGS_OF_FIELDS.items() if (value := read(spec.engine)) is not None}
    keeps_prefixes = spec.engine.prefix_offload.enabled and runs_windlass(spec)
    layers = Layers(
        split((*spec.command[1:], *spec.args), BY_NAME, engine),
        fields,
        {one.name: one.value for one in spec.env if one.value},
        {PREFIX_OFFLOAD: ("true", FIELD)} if keeps_prefixes else {},
    )
    found = settings_in_force(layers, ROWS)
    return replace(found, engine_words=tuple(map(engine.in_full, found.engine_words)))


def _percent(value: Value) -> int | None:
    return round(value * 100) or None if isinstance(value, float) else None


def _count(value: Value) -> int | None:
    return value if isinstance(value, int) and value >= 1 else None


def _as_it_is(value: Value) -> Value:
    return value


OF_ENGINE: Mapping[str, tuple[str, Callable[[Value], Value | None]]] = {
    "quantization": ("quantization", _as_it_is),
    "max_model_len": ("max-model-len", _count),
    "dtype": ("dtype", _as_it_is),
    "gpu_memory_utilization_percent": ("gpu-memory-utilization", _percent),
    "ignore_engine_limits": ("ignore-engine-limits", _as_it_is),
    "enforce_eager": ("enforce-eager", _as_it_is),
    "tensor_parallel_size": ("tensor-parallel-size", _count),
    "pipeline_parallel_size": ("pipeline-parallel-size", _count),
    "sequence_parallel_size": ("sequence-parallel-size", _count),
    "workers": ("worker-num", _count),
    "max_num_batched_tokens": ("max-num-batched-tokens", _count),
    "max_num_seqs": ("max-num-seqs", _count),
}
"""Fields of `spec.engine` that flags and variables overrule, and how the plan reads them."""
KV_DTYPE = "--kv-cache-dtype"  # the engine's own flag


def engine_in_force(spec: LLMServiceSpec, settings: Settings) -> EngineSpec:
    """`spec.engine` with what the variables and flags say laid over it."""
    found: dict[str, object] = {}
    for field, (name, read) in OF_ENGINE.items():
        if settings.is_given(name) and (value := read(settings.rows[name].value)) is not None:
            found[field] = value
    if (length := _length_beside(spec, settings)) is not None:
        found["max_model_len"] = length
    if dtype := settings.engine_value(KV_DTYPE):
        found["kv_cache_dtype"] = dtype
    return spec.engine.model_copy(update=found)


def _length_beside(spec: LLMServiceSpec, settings: Settings) -> int | None:
    """The length of a variable beside a flag by which the engine takes what fits: the plan needs a number."""
    if settings.source("max-model-len") != FLAG or isinstance(settings.value("max-model-len"), int):
        return None
    names = BY_NAME["max-model-len"].variables
    return next((context_length.tokens_of(one.value) for one in spec.env if one.name in names and one.value), None)


def whole_prompts(settings: Settings) -> bool:
    """Whether the user's flags forbid that a long prompt is read in several steps."""
    return settings.value("enable-chunked-prefill") is False
