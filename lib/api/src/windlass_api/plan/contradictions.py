"""Words of a spec that the server refuses beside each other at its start, when the pod has its GPUs already.

`decide` asks before it looks at the cluster. A rule of the CRD refuses what two fields say; these rules read flags and
variables in every spelling. A command of the user's own gets none of the planned flags and is not judged. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass_sizing import engine_flags
from windlass_sizing.model import drafter
from windlass_sizing.settings.flags import ROW
from windlass_sizing.settings.in_force import Settings
from windlass_sizing.settings.setting import FIELD, FLAG

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.beside import merges
from windlass_api.plan.drafts import DRAFT, OLD_MODEL, TOKENS, drafting, other_drafter
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import (
    KV_BACKEND,
    KV_SIZE,
    KV_TRANSFER,
    keeps_prefixes,
    looks_ahead,
)
from windlass_api.plan.overrides import VLLM, engine_in_force, runs_windlass

CHUNKED, STEPS = "--enable-chunked-prefill", "num-scheduler-steps"
WORKERS = "worker-num"
PREFIXES = "enable-prefix-caching"


def contradiction(spec: LLMServiceSpec, settings: Settings) -> Refusal | None:
    """The first contradiction, and what to do; None where the server takes the words."""
    if spec.image.family != VLLM or not runs_windlass(spec):
        return None
    for reason, rule in RULES:
        if found := rule(spec, settings):
            return Refusal(reason, *found)
    return None


def _other_tokens(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    field, tokens = spec.engine.speculation, settings.value(TOKENS)
    if field is None or settings.source(TOKENS) != FLAG or tokens == field.tokens:
        return None
    if any(settings.names(flag) for flag in drafter.FLAGS):  # beside them the server goes by their tokens
        return None
    return (
        f"spec.engine.speculation drafts {field.tokens} tokens, and --{TOKENS} says {tokens}",
        f"leave --{TOKENS} out, and set spec.engine.speculation.tokens",
    )


def _other_model(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    if spec.engine.speculation is None or settings.engine_value(OLD_MODEL) is None:
        return None
    return f"spec.engine.speculation and {OLD_MODEL} both name what drafts", "leave one of the two out"


def _two_drafters(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    field = spec.engine.speculation
    if field is None or field.method in drafter.BESIDE_LOOKAHEAD or not looks_ahead(settings):
        return None
    return (
        f"spec.engine.speculation.method {field.method} does not go with lookahead",
        f"set the method to one of {', '.join(drafter.BESIDE_LOOKAHEAD)}, or switch lookahead off",
    )


def _split_prompts(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    who = drafting(spec, settings)
    if not who or settings.value("enable-chunked-prefill") is not True:
        return None
    return f"{who[0]} and {CHUNKED} exclude each other", f"leave {CHUNKED} out, or {who[1]}"


def _several_steps(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    who, steps = drafting(spec, settings), settings.whole(STEPS)
    if not who or steps <= 1:
        return None
    name = "spec.engine.schedulerSteps" if settings.source(STEPS) == FIELD else f"--{STEPS}"
    return f"{who[0]} and {name} {steps} exclude each other", f"leave {name} out, or {who[1]}"


def _no_prefixes(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    if settings.value(PREFIXES) is not False or not keeps_prefixes(settings):
        return None
    name = "spec.engine.prefixCaching" if settings.source(PREFIXES) == FIELD else f"--{PREFIXES}"
    return (
        f"prefix offload keeps what the prefix cache evicts, and {name} is false",
        "leave that out, or switch prefix offload off",
    )


def _other_blocks(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    other = next((flag for flag in (KV_TRANSFER, KV_SIZE, KV_BACKEND) if settings.names(flag)), None)
    if other is None or not keeps_prefixes(settings):
        return None
    return (
        f"prefix offload and {other} both choose where blocks of the KV cache are kept",
        f"leave {other} out, or switch prefix offload off",
    )


def _no_adapters(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    if not spec.model.adapters or settings.value("enable-lora") is not False or merges(spec, settings):
        return None
    return (
        f"spec.model.adapters names {spec.model.adapters[0].name}, and --enable-lora is false",
        "leave one of the two out",
    )


def _other_engines(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    flag, workers = engine_flags.ENGINES[0], engine_in_force(spec, settings).workers
    count = engine_flags.count_of(settings.engine_words, engine_flags.ENGINES)
    if count is None or count == workers or any(settings.names(placed) for placed in engine_flags.PLACED):
        return None
    if spec.deployment.mode == "Distributed":
        remedy = "raise spec.replicas"
    elif settings.names(f"--{WORKERS}"):
        remedy = f"say --{WORKERS} {count}"
    else:
        remedy = f"set {ROW[WORKERS].variables[0] if settings.is_given(WORKERS) else 'spec.engine.workers'}"
    engines = f"{count} engine{'s' if count != 1 else ''}"
    return (
        f"{flag} {count} starts {engines}, and the plan counts GPUs and memory for {workers}",
        f"leave {flag} out, and {remedy}, which starts as many engines",
    )


def _shared_prompts(spec: LLMServiceSpec, settings: Settings) -> drafter.Unfit | None:
    flag = engine_flags.PROMPT_RANKS[0]
    count = engine_flags.count_of(settings.engine_words, engine_flags.PROMPT_RANKS)
    if count is None or count == 1 or spec.resources.gpus == 0:
        return None
    return (
        f"{flag} {count} takes {count} times the GPUs that the plan counts",
        f"leave {flag} out, or set spec.engine.sequenceParallelSize in its place",
    )


PREFIX, ADAPTER, LAYOUT = "PrefixOffloadUnusable", "AdapterUnusable", "BadParallelism"
RULES: tuple[tuple[str, Callable[[LLMServiceSpec, Settings], drafter.Unfit | None]], ...] = (
    (DRAFT, _other_tokens),
    (DRAFT, _other_model),
    (DRAFT, _two_drafters),
    (DRAFT, other_drafter),
    (DRAFT, _split_prompts),
    (DRAFT, _several_steps),
    (PREFIX, _no_prefixes),
    (PREFIX, _other_blocks),
    (ADAPTER, _no_adapters),
    (LAYOUT, _other_engines),
    (LAYOUT, _shared_prompts),
)
"""Each with the reason that the service gets."""
