"""The server's command line and variables for a plan: the one place where decisions become argv.

Every argv made here must be accepted by the server's own parser; a contract test holds both sides to it. Pure.
"""

from __future__ import annotations

import json

from windlass_sizing.placement.formula import STEP_TOKENS_MAX

from windlass_api.crd.v1alpha1 import LLMServiceSpec, SpeculationSpec
from windlass_api.plan import prefix_offload
from windlass_api.plan.cpu import KV_SPACE, kv_space_gib
from windlass_api.plan.model import Plan
from windlass_api.plan.start import (
    CPU,
    DRAFTS_ON_CPU,
    GPU,
    MODEL_DIRECTORY,
    RUN,
    VLLM,
    Start,
    runs_windlass,
    start_of,
)

DRAFT_DIRECTORY = "/data/draft"
DEEPSPEED = "deepspeed"
PROGRAMS = {VLLM: "windlass", DEEPSPEED: "windlass-deepspeed"}


def server_args(spec: LLMServiceSpec, plan: Plan) -> tuple[str, ...]:
    """The planned flags, then the user's own from `spec.command` after `run`, then `spec.args`: the last one wins."""
    return (*PLANNED[spec.image.family](spec, plan), *spec.command[1:], *spec.args)


def vllm_flags(spec: LLMServiceSpec, plan: Plan) -> tuple[str, ...]:
    """What the plan and `spec.engine` say, as flags of `windlass run`."""
    start = start_of(spec)
    flags: list[str] = [
        *("--model", MODEL_DIRECTORY),
        *("--served-model-name", spec.model.id),
        *("--tensor-parallel-size", str(plan.tp)),
        *("--max-model-len", str(plan.max_model_len)),
        *("--dtype", plan.dtype),
        *("--gpu-memory-utilization", f"{plan.gpu_memory_utilization_percent / 100:.2f}"),
        # How long the engine may finish its answers when the pod is told to go.
        *("--shutdown-timeout", str(spec.deployment.drain_seconds)),
    ]
    if plan.pp > 1:
        flags += ["--pipeline-parallel-size", str(plan.pp)]
    if plan.sp > 1:
        flags += ["--sequence-parallel-size", str(plan.sp)]
    if plan.quantization:
        flags += ["--quantization", plan.quantization]
    if plan.enforce_eager:
        flags.append("--enforce-eager")
    if plan.draft_threads:
        flags += ["--cpu-draft-threads", str(plan.draft_threads)]
    if plan.api_processes > 1:
        flags += ["--api-server-count", str(plan.api_processes)]
    return (
        *flags,
        *_step(start, plan),
        *_tuning(start, plan),
        *prefix_offload.flags(start, plan),
        *_prefix(spec),
    )


def _step(start: Start, plan: Plan) -> tuple[str, ...]:
    """A step as the plan has it: left alone, the server makes it as long as the context, however long that is."""
    is_given = start.settings.count("max-num-batched-tokens") is not None or start.whole_prompts
    if is_given or not plan.gpus or plan.max_model_len <= STEP_TOKENS_MAX:
        return ()
    return ("--max-num-batched-tokens", str(STEP_TOKENS_MAX))


def _prefix(spec: LLMServiceSpec) -> tuple[str, ...]:
    """The server takes the prefix off by itself, so that no controller has to rewrite a path."""
    return ("--root-path", spec.expose.path) if spec.expose.path else ()


def deepspeed_flags(spec: LLMServiceSpec, plan: Plan) -> tuple[str, ...]:
    """The same as flags of `windlass-deepspeed run`, which has fewer; the context is one of its variables."""
    flags = ["--model-path", MODEL_DIRECTORY, "--num-gpus", str(max(1, plan.tp)), "--dtype", plan.dtype]
    start, engine = start_of(spec), spec.engine
    if plan.workers > 1:
        flags += ["--worker-num", str(plan.workers)]
    if engine.max_concurrency is not None:
        flags += ["--limit-worker-concurrency", str(engine.max_concurrency)]
    if (sequences := start.settings.count("max-num-seqs")) is not None:
        flags += ["--max-batch-size", str(sequences)]
    if engine.seed is not None:
        flags += ["--seed", str(engine.seed)]
    return tuple(flags)


PLANNED = {VLLM: vllm_flags, DEEPSPEED: deepspeed_flags}


def _tuning(start: Start, plan: Plan) -> list[str]:
    """The engines as planned, and the settings in force: only what was asked for, so that the server's defaults hold.

    A flag wins over its variable, so a field that a variable overrules must not become one.
    """
    engine, settings = start.spec.engine, start.settings
    flags: list[str] = []
    for value, flag in (
        (plan.workers if plan.workers > 1 else None, "--worker-num"),
        (engine.max_concurrency, "--limit-worker-concurrency"),
        (settings.count("max-num-seqs"), "--max-num-seqs"),
        (settings.count("max-num-batched-tokens"), "--max-num-batched-tokens"),
        (engine.scheduler_steps if engine.scheduler_steps > 1 else None, "--num-scheduler-steps"),
        (start.kv_cache_dtype if start.kv_cache_dtype != "auto" else None, "--kv-cache-dtype"),
        (engine.seed, "--seed"),
    ):
        if value is not None:
            flags += [flag, str(value)]
    if engine.prefix_caching is not None:
        flags.append("--enable-prefix-caching" if engine.prefix_caching else "--no-enable-prefix-caching")
    if settings.value("ignore-engine-limits") is True:
        flags.append("--ignore-engine-limits")
    if not engine.trust_remote_code:
        flags.append("--no-trust-remote-code")
    if engine.allowed_media_domains:
        flags += ["--allowed-media-domains", ",".join(engine.allowed_media_domains)]
    if engine.speculation:
        flags += ["--speculative-config", speculative_config(engine.speculation)]
        flags += {CPU: [f"--{DRAFTS_ON_CPU}"], GPU: [f"--{DRAFTS_ON_CPU}=false"]}.get(
            engine.speculation.runs_on or "", []
        )
    if engine.lookahead.enabled:
        flags.append("--use-lookahead")
        if engine.lookahead.speculative_tokens is not None:
            flags += ["--num-speculative-tokens", str(engine.lookahead.speculative_tokens)]
    return flags


def speculative_config(drafts: SpeculationSpec) -> str:
    """The field as the engine's own configuration, beside which the user's words may set keys."""
    return json.dumps({"method": drafts.method, "model": DRAFT_DIRECTORY, "num_speculative_tokens": drafts.tokens})


def container_command(spec: LLMServiceSpec, plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The container's command and args: `… run <flags>`, or the user's own command as it stands."""
    if runs_windlass(spec):
        return (PROGRAMS[spec.image.family],), (RUN, *server_args(spec, plan))
    return tuple(spec.command), tuple(spec.args)


def engine_variables(spec: LLMServiceSpec, plan: Plan) -> tuple[tuple[str, str], ...]:
    """What the engine is told by its environment; only where it is ours."""
    if not runs_windlass(spec):
        return ()
    if spec.image.family == DEEPSPEED:
        # A pinned image of before this setting refuses an unknown flag, and passes over an unknown variable.
        return (("MAX_MODEL_LEN", str(plan.max_model_len)),)
    return () if plan.gpus else ((KV_SPACE, str(kv_space_gib(spec, plan.kv_gib / plan.workers))),)
