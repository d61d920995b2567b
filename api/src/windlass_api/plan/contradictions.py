"""Words of a spec that the server refuses beside each other at its start, when the pod has its GPUs already.

`decide` asks before it looks at the cluster. A rule of the CRD refuses what two fields say; these rules read flags and
variables in every spelling. A command of the user's own gets none of the planned flags and is not judged. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass_sizing import engine_flags
from windlass_sizing.model import drafter

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
from windlass_api.plan.overrides import VLLM, engine_in_force, last_given, names, runs_windlass, switched, words

CHUNKED, STEPS = "--enable-chunked-prefill", "--num-scheduler-steps"
WORKERS, WORKERS_VARIABLE = "--worker-num", "WORKER_NUM"
PREFIXES, PREFIXES_VARIABLE = "--enable-prefix-caching", "ENABLE_PREFIX_CACHING"


def contradiction(spec: LLMServiceSpec) -> Refusal | None:
    """The first contradiction, and what to do; None where the server takes the words."""
    if spec.image.family != VLLM or not runs_windlass(spec):
        return None
    for reason, rule in RULES:
        if found := rule(spec):
            return Refusal(reason, *found)
    return None


def _other_tokens(spec: LLMServiceSpec) -> drafter.Unfit | None:
    field, said = spec.engine.speculation, last_given(spec, TOKENS) or ""
    if field is None or not said.isdecimal() or int(said) == field.tokens:
        return None
    if any(names(spec, flag) for flag in drafter.FLAGS):  # beside them the server goes by their tokens
        return None
    return (
        f"spec.engine.speculation drafts {field.tokens} tokens, and {TOKENS} says {said}",
        f"leave {TOKENS} out, and set spec.engine.speculation.tokens",
    )


def _other_model(spec: LLMServiceSpec) -> drafter.Unfit | None:
    if spec.engine.speculation is None or last_given(spec, OLD_MODEL) is None:
        return None
    return f"spec.engine.speculation and {OLD_MODEL} both name what drafts", "leave one of the two out"


def _two_drafters(spec: LLMServiceSpec) -> drafter.Unfit | None:
    field = spec.engine.speculation
    if field is None or field.method in drafter.BESIDE_LOOKAHEAD or not looks_ahead(spec):
        return None
    return (
        f"spec.engine.speculation.method {field.method} does not go with lookahead",
        f"set the method to one of {', '.join(drafter.BESIDE_LOOKAHEAD)}, or switch lookahead off",
    )


def _split_prompts(spec: LLMServiceSpec) -> drafter.Unfit | None:
    who = drafting(spec)
    if not who or not switched(spec, CHUNKED):
        return None
    return f"{who[0]} and {CHUNKED} exclude each other", f"leave {CHUNKED} out, or {who[1]}"


def _several_steps(spec: LLMServiceSpec) -> drafter.Unfit | None:
    who, said = drafting(spec), last_given(spec, STEPS)
    steps = spec.engine.scheduler_steps if said is None else int(said) if said.isdecimal() else 1
    if not who or steps <= 1:
        return None
    name = "spec.engine.schedulerSteps" if said is None else STEPS
    return f"{who[0]} and {name} {steps} exclude each other", f"leave {name} out, or {who[1]}"


def _no_prefixes(spec: LLMServiceSpec) -> drafter.Unfit | None:
    flag, field = switched(spec, PREFIXES), spec.engine.prefix_caching
    said = flag if flag is not None else field if field is not None else switched(spec, PREFIXES, PREFIXES_VARIABLE)
    if said is not False or not keeps_prefixes(spec):
        return None
    by_field = flag is None and field is not None
    name = "spec.engine.prefixCaching" if by_field else PREFIXES
    return (
        f"prefix offload keeps what the prefix cache evicts, and {name} is false",
        "leave that out, or switch prefix offload off",
    )


def _other_blocks(spec: LLMServiceSpec) -> drafter.Unfit | None:
    other = next((flag for flag in (KV_TRANSFER, KV_SIZE, KV_BACKEND) if names(spec, flag)), None)
    if other is None or not keeps_prefixes(spec):
        return None
    return (
        f"prefix offload and {other} both choose where blocks of the KV cache are kept",
        f"leave {other} out, or switch prefix offload off",
    )


def _no_adapters(spec: LLMServiceSpec) -> drafter.Unfit | None:
    if not spec.model.adapters or switched(spec, "--enable-lora", "ENABLE_LORA") is not False or merges(spec):
        return None
    return (
        f"spec.model.adapters names {spec.model.adapters[0].name}, and --enable-lora is false",
        "leave one of the two out",
    )


def _other_engines(spec: LLMServiceSpec) -> drafter.Unfit | None:
    flag, workers = engine_flags.ENGINES[0], engine_in_force(spec).workers
    count = engine_flags.count_of(words(spec), engine_flags.ENGINES)
    if count is None or count == workers or any(names(spec, placed) for placed in engine_flags.PLACED):
        return None
    if spec.deployment.mode == "Distributed":
        remedy = "raise spec.replicas"
    elif names(spec, WORKERS):
        remedy = f"say {WORKERS} {count}"
    else:
        remedy = f"set {WORKERS_VARIABLE if last_given(spec, WORKERS, WORKERS_VARIABLE) else 'spec.engine.workers'}"
    engines = f"{count} engine{'s' if count != 1 else ''}"
    return (
        f"{flag} {count} starts {engines}, and the plan counts GPUs and memory for {workers}",
        f"leave {flag} out, and {remedy}, which starts as many engines",
    )


def _shared_prompts(spec: LLMServiceSpec) -> drafter.Unfit | None:
    flag, count = engine_flags.PROMPT_RANKS[0], engine_flags.count_of(words(spec), engine_flags.PROMPT_RANKS)
    if count is None or count == 1 or spec.resources.gpus == 0:
        return None
    return (
        f"{flag} {count} takes {count} times the GPUs that the plan counts",
        f"leave {flag} out, or set spec.engine.sequenceParallelSize in its place",
    )


PREFIX, ADAPTER, LAYOUT = "PrefixOffloadUnusable", "AdapterUnusable", "BadParallelism"
RULES: tuple[tuple[str, Callable[[LLMServiceSpec], drafter.Unfit | None]], ...] = (
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
