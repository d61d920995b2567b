"""Words of a spec that the server refuses beside each other at its start, when the pod has its GPUs already.

`decide` asks before it looks at the cluster. A rule of the CRD refuses what two fields say; these rules read flags and
variables in every spelling. A command of the user's own gets none of the planned flags and is not judged. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass_sizing import engine_flags
from windlass_sizing.model import drafter
from windlass_sizing.settings.setting import FIELD, FLAG

from windlass_api.plan.beside import merges
from windlass_api.plan.drafts import DRAFT, OLD_MODEL, TOKENS, drafting, other_drafter
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import KV_BACKEND, KV_SIZE, KV_TRANSFER
from windlass_api.plan.start import WORKERS, Start

CHUNKED, STEPS = "--enable-chunked-prefill", "num-scheduler-steps"
PREFIXES = "enable-prefix-caching"


def contradiction(start: Start) -> Refusal | None:
    """The first contradiction, and what to do; None where the server takes the words."""
    if not start.is_vllm or not start.is_ours:
        return None
    for reason, rule in RULES:
        if found := rule(start):
            return Refusal(reason, *found)
    return None


def _other_tokens(start: Start) -> drafter.Unfit | None:
    field, tokens = start.spec.engine.speculation, start.settings.value(TOKENS)
    if field is None or start.settings.source(TOKENS) != FLAG or tokens == field.tokens:
        return None
    if any(start.settings.names(flag) for flag in drafter.FLAGS):  # beside them the server goes by their tokens
        return None
    return (
        f"spec.engine.speculation drafts {field.tokens} tokens, and --{TOKENS} says {tokens}",
        f"leave --{TOKENS} out, and set spec.engine.speculation.tokens",
    )


def _other_model(start: Start) -> drafter.Unfit | None:
    if start.spec.engine.speculation is None or start.settings.engine_value(OLD_MODEL) is None:
        return None
    return f"spec.engine.speculation and {OLD_MODEL} both name what drafts", "leave one of the two out"


def _two_drafters(start: Start) -> drafter.Unfit | None:
    field = start.spec.engine.speculation
    if field is None or field.method in drafter.BESIDE_LOOKAHEAD or not start.looks_ahead:
        return None
    return (
        f"spec.engine.speculation.method {field.method} does not go with lookahead",
        f"set the method to one of {', '.join(drafter.BESIDE_LOOKAHEAD)}, or switch lookahead off",
    )


def _split_prompts(start: Start) -> drafter.Unfit | None:
    who = drafting(start)
    if not who or start.settings.value("enable-chunked-prefill") is not True:
        return None
    return f"{who[0]} and {CHUNKED} exclude each other", f"leave {CHUNKED} out, or {who[1]}"


def _several_steps(start: Start) -> drafter.Unfit | None:
    who, steps = drafting(start), start.settings.whole(STEPS)
    if not who or steps <= 1:
        return None
    name = "spec.engine.schedulerSteps" if start.settings.source(STEPS) == FIELD else f"--{STEPS}"
    return f"{who[0]} and {name} {steps} exclude each other", f"leave {name} out, or {who[1]}"


def _no_prefixes(start: Start) -> drafter.Unfit | None:
    if start.settings.value(PREFIXES) is not False or not start.keeps_prefixes:
        return None
    name = "spec.engine.prefixCaching" if start.settings.source(PREFIXES) == FIELD else f"--{PREFIXES}"
    return (
        f"prefix offload keeps what the prefix cache evicts, and {name} is false",
        "leave that out, or switch prefix offload off",
    )


def _other_blocks(start: Start) -> drafter.Unfit | None:
    other = next((flag for flag in (KV_TRANSFER, KV_SIZE, KV_BACKEND) if start.settings.names(flag)), None)
    if other is None or not start.keeps_prefixes:
        return None
    return (
        f"prefix offload and {other} both choose where blocks of the KV cache are kept",
        f"leave {other} out, or switch prefix offload off",
    )


def _no_adapters(start: Start) -> drafter.Unfit | None:
    if not start.spec.model.adapters or start.settings.value("enable-lora") is not False or merges(start):
        return None
    return (
        f"spec.model.adapters names {start.spec.model.adapters[0].name}, and --enable-lora is false",
        "leave one of the two out",
    )


def _other_engines(start: Start) -> drafter.Unfit | None:
    flag, workers = engine_flags.ENGINES[0], start.workers
    count = engine_flags.count_of(start.settings.engine_words, engine_flags.ENGINES)
    if count is None or count == workers or any(start.settings.names(placed) for placed in engine_flags.PLACED):
        return None
    if start.spec.deployment.mode == "Distributed":
        remedy = "raise spec.replicas"
    elif start.settings.names(f"--{WORKERS}"):
        remedy = f"say --{WORKERS} {count}"
    else:
        remedy = f"set {start.of_field(WORKERS, 'spec.engine.workers')}"
    engines = f"{count} engine{'s' if count != 1 else ''}"
    return (
        f"{flag} {count} starts {engines}, and the plan counts GPUs and memory for {workers}",
        f"leave {flag} out, and {remedy}, which starts as many engines",
    )


def _shared_prompts(start: Start) -> drafter.Unfit | None:
    flag = engine_flags.PROMPT_RANKS[0]
    count = engine_flags.count_of(start.settings.engine_words, engine_flags.PROMPT_RANKS)
    if count is None or count == 1 or start.spec.resources.gpus == 0:
        return None
    return (
        f"{flag} {count} takes {count} times the GPUs that the plan counts",
        f"leave {flag} out, or set spec.engine.sequenceParallelSize in its place",
    )


PREFIX, ADAPTER, LAYOUT = "PrefixOffloadUnusable", "AdapterUnusable", "BadParallelism"
RULES: tuple[tuple[str, Callable[[Start], drafter.Unfit | None]], ...] = (
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
