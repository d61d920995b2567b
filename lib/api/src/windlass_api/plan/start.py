"""A service's spec and the settings that its server starts with, as one value for the whole plan.

`spec.args` wins over `spec.command`, that over fields that become flags, those over `spec.env`, and that over fields
that a variable overrules. A plan that read `spec.engine` alone would size another server than the one that starts.
The server itself ends with a sentence on a text that cannot be read; the plan goes by the next layer. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from windlass_sizing import engine_flags
from windlass_sizing.engine_flags import EngineFlags
from windlass_sizing.placement.words import WARNING
from windlass_sizing.settings.flags import BY_NAME, FLAGS, ROW
from windlass_sizing.settings.in_force import Layers, Settings, settings_in_force
from windlass_sizing.settings.parse import split
from windlass_sizing.settings.setting import DEFAULT, FIELD, FLAG

from windlass_api.crd.v1alpha1 import LLMServiceSpec

RUN, VLLM = "run", "vllm"
MODEL_DIRECTORY = "/data/model"
CPU, GPU = "cpu", "gpu"  # where a draft model runs
PREFIX_OFFLOAD = "enable-prefix-cache-offload"
LOOKAHEAD, LOOKAHEAD_DIRECTORY = "use-lookahead", "lookahead-cache-config-dir"
DRAFTS_ON_CPU = "cpu-draft-worker"
WORKERS, UTILIZATION = "worker-num", "gpu-memory-utilization"
KV_DTYPE = "--kv-cache-dtype"  # the engine's own flag
ROWS = tuple(replace(flag, choices=()) for flag in FLAGS)
"""The server's rows; the plan judges number formats and bits itself, with reasons of its own."""
OTHER_PROGRAM = EngineFlags("", {})  # whose flags are not shortened
Texts = Mapping[str, Callable[[LLMServiceSpec], object | None]]


def _switch(on: bool | None) -> str | None:
    return None if on is None else str(on).lower()


def _share(percent: int) -> str | None:
    share = f"{percent / 100}"
    return None if share == ROW[UTILIZATION].default else share


WRITTEN: Texts = {
    "served-model-name": lambda spec: spec.model.id,
    "shutdown-timeout": lambda spec: spec.deployment.drain_seconds,
    "limit-worker-concurrency": lambda spec: spec.engine.max_concurrency,
    "num-scheduler-steps": lambda spec: spec.engine.scheduler_steps if spec.engine.scheduler_steps > 1 else None,
    "seed": lambda spec: spec.engine.seed,
    "enable-prefix-caching": lambda spec: _switch(spec.engine.prefix_caching),
    "allowed-media-domains": lambda spec: ",".join(spec.engine.allowed_media_domains or ()) or None,
    "trust-remote-code": lambda spec: None if spec.engine.trust_remote_code else "false",
    DRAFTS_ON_CPU: lambda spec: {CPU: "true", GPU: "false"}.get(_runs_on(spec)),
    LOOKAHEAD: lambda spec: _switch(spec.engine.lookahead.enabled or None),
    "num-speculative-tokens": lambda spec: (
        spec.engine.lookahead.speculative_tokens if spec.engine.lookahead.enabled else None
    ),
}
"""Fields that `args` writes as flags whatever the variables say."""
OVERRULED: Texts = {
    "quantization": lambda spec: spec.engine.quantization,
    "max-model-len": lambda spec: spec.engine.max_model_len,
    "dtype": lambda spec: spec.engine.dtype,
    UTILIZATION: lambda spec: _share(spec.engine.gpu_memory_utilization_percent),
    "ignore-engine-limits": lambda spec: _switch(spec.engine.ignore_engine_limits or None),
    "enforce-eager": lambda spec: _switch(spec.engine.enforce_eager or None),
    "tensor-parallel-size": lambda spec: spec.engine.tensor_parallel_size,
    "pipeline-parallel-size": lambda spec: spec.engine.pipeline_parallel_size,
    "sequence-parallel-size": lambda spec: spec.engine.sequence_parallel_size,
    WORKERS: lambda spec: spec.engine.workers if spec.engine.workers > 1 else None,
    "max-num-batched-tokens": lambda spec: spec.engine.max_num_batched_tokens,
    "max-num-seqs": lambda spec: spec.engine.max_num_seqs,
    "disable-mem-cache": lambda spec: _switch((not spec.engine.memory_cache) or None),
    "conv-template": lambda spec: spec.engine.conv_template or None,
    PREFIX_OFFLOAD: lambda spec: _switch((spec.engine.prefix_offload.enabled and runs_windlass(spec)) or None),
}
"""Fields that a variable overrules; a value that the CRD fills in is left to the row's default."""


def _runs_on(spec: LLMServiceSpec) -> str:
    return (spec.engine.speculation.runs_on or "") if spec.engine.speculation else ""


@dataclass(frozen=True, slots=True)
class Start:
    """A spec with its settings in force, and the answers of these that several parts of the plan need."""

    spec: LLMServiceSpec
    settings: Settings
    is_vllm: bool
    is_ours: bool
    """Whether the server starts by `windlass run`; any other command is the user's own and gets no planned flags."""
    workers: int
    max_model_len: int | None
    """Context that is asked for; None leaves it to the plan, also where the engine is to take what fits."""
    kv_cache_dtype: str
    looks_ahead: bool
    drafts_on_cpu: bool
    """Whether the draft model of the spec runs on the host's cores."""
    keeps_prefixes: bool
    prefix_mib: int
    """Size that a flag or a variable gives to evicted prefixes; 0 where they are not kept, or by the field."""
    whole_prompts: bool
    """Whether the user's flags forbid that a long prompt is read in several steps."""

    def of_field(self, name: str, field: str) -> str:
        """Name what has the value in force: the flag, the variable, or else this field."""
        source = self.settings.source(name)
        if source in (FIELD, DEFAULT, ""):
            return field
        return source.removeprefix("variable ") if source.startswith("variable ") else f"--{name}"


def runs_windlass(spec: LLMServiceSpec) -> bool:
    """Tell a container that runs `windlass run`."""
    return not spec.command or spec.command[0] == RUN


def start_of(spec: LLMServiceSpec) -> Start:
    """Resolve the settings of a spec once, for all that is planned from them."""
    settings, is_ours = _settings(spec), runs_windlass(spec)
    keeps_prefixes = settings.value(PREFIX_OFFLOAD) is True
    on_cpu = spec.engine.speculation is not None and is_ours and settings.value(DRAFTS_ON_CPU) is True
    return Start(
        spec,
        settings,
        is_vllm=spec.image.family == VLLM,
        is_ours=is_ours,
        workers=settings.count(WORKERS) or 1,
        max_model_len=settings.count("max-model-len"),
        kv_cache_dtype=settings.engine_value(KV_DTYPE) or spec.engine.kv_cache_dtype,
        looks_ahead=_looks_ahead(settings),
        drafts_on_cpu=on_cpu,
        keeps_prefixes=keeps_prefixes,
        prefix_mib=settings.whole("prefix-offload-mib") if keeps_prefixes else 0,
        whole_prompts=settings.value("enable-chunked-prefill") is False,
    )


def _settings(spec: LLMServiceSpec) -> Settings:
    """The settings in force, the engine's words with their flags in full."""
    engine = engine_flags.record() if spec.image.family == VLLM else OTHER_PROGRAM
    below = {name: (text, FIELD) for name, text in _texts(spec, OVERRULED).items()}
    layers = Layers(
        split((*spec.command[1:], *spec.args), BY_NAME, engine),
        _texts(spec, WRITTEN),
        {one.name: one.value for one in spec.env if one.value},
        below,
    )
    found = settings_in_force(layers, ROWS)
    return replace(found, engine_words=tuple(map(engine.in_full, found.engine_words)))


def _texts(spec: LLMServiceSpec, table: Texts) -> dict[str, str]:
    return {name: str(value) for name, read in table.items() if (value := read(spec)) is not None}


def _looks_ahead(settings: Settings) -> bool:
    """As the server decides: a directory of its configuration counts where nothing switches lookahead on or off."""
    if settings.source(LOOKAHEAD) != DEFAULT:
        return settings.value(LOOKAHEAD) is True
    return settings.is_given(LOOKAHEAD_DIRECTORY)


def unplanned_model(start: Start) -> tuple[str, ...]:
    """Warning of a model directory in the user's flags that is not the planned one; empty where there is none.

    No refusal: an overlay may bring that directory, and a service that runs goes on.
    """
    directory = PurePosixPath(str(start.settings.value("model")))
    is_planned = start.settings.source("model") != FLAG or directory == PurePosixPath(MODEL_DIRECTORY)
    if not start.is_ours or is_planned:
        return ()
    return (
        f"{WARNING}--model {directory} is served, and the plan is of spec.model in {MODEL_DIRECTORY};"
        " leave --model out, and name the model in spec.model",
    )
