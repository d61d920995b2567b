"""A plan as a tree: where, how it is split, what each GPU must hold, why, and what else would do. Pure."""

from __future__ import annotations

from windlass_api.crd.status import CardBudget, Measured, PlanStatus
from windlass_sizing.placement import words
from windlass_sizing.settings.setting import Setting

from windlass_kubectl.paint import Branch, Paint

HUNDREDTH = 0.01
"""GiB; less is not printed."""
VALUE_MAX = 48  # characters of a setting's value; -o json has all


def headline(plan: PlanStatus) -> str:
    """The plan in a line."""
    place = f"{plan.gpus} × {plan.gpu_type or 'GPU'}" if plan.gpus else "CPU, no GPU"
    parts = [
        place,
        f"{plan.nodes} nodes by {plan.group}" if plan.nodes and plan.nodes > 1 else "",
        f"TP {plan.tp}" if plan.gpus else "",
        f"PP {plan.pp}" if plan.pp and plan.pp > 1 else "",
        f"SP {plan.sp}" if plan.sp and plan.sp > 1 else "",
        f"context {plan.max_model_len}",
        plan.dtype or "",
        plan.quantization or "",
    ]
    return "plan: " + ", ".join(part for part in parts if part)


def plan_branch(plan: PlanStatus, paint: Paint) -> Branch:
    """Everything that is known of a plan."""
    warnings = words.warnings(plan.because)
    because = [line for line in plan.because if line not in warnings]
    rows = (
        *(Branch(f"{paint.mark('wait')} {line}", "wait") for line in warnings),
        *([budget(plan.per_gpu, paint)] if plan.per_gpu else []),
        *([Branch(_totals(plan))] if plan.required_gib else []),
        *([Branch(_measured(plan.measured))] if plan.measured else []),
        *([Branch(f"pods are replaced by {plan.rollout}")] if plan.rollout else []),
        *_listed("because", because),
        *_listed("instead", plan.alternatives),
        *_listed("could be better", plan.advice),
    )
    return Branch(headline(plan), "head", rows)


def settings_branch(rows: tuple[Setting, ...]) -> list[Branch]:
    """The settings in force and their sources, in columns as `windlass run --explain` has them."""
    name_width = max((len(row.name) for row in rows), default=0)
    value_width = min(VALUE_MAX, max((len(row.shown) for row in rows), default=0))
    lines = [f"{row.name:<{name_width}}  {_cut(row.shown):<{value_width}}  {row.source}" for row in rows]
    return _listed("settings: value, from", lines)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_MAX else f"{text[: VALUE_MAX - 1]}…"


def budget(card: CardBudget, paint: Paint) -> Branch:
    """One GPU's memory as a bar: weights, cache of one context, the engine, and the rest, some of it left free."""
    weights, kv, engine = _parts(card)
    have, needed = _number(card.have_gib), _needed(card)
    # The engine leaves a share of the card free (`--gpu-memory-utilization`), so more is needed than it takes.
    free = max(0.0, needed - weights - kv - engine)
    terms = [f"weights {weights:.2f}", f"KV cache {kv:.2f}", f"engine {engine:.2f}"]
    terms += [f"left free {free:.2f}"] if free >= HUNDREDTH else []
    words = f"{' + '.join(terms)} = {needed:.2f} GiB"
    if not have:
        return Branch(f"each GPU: {words}")
    bar = paint.bar([part / have for part in (weights, kv, engine)])
    return Branch(f"each GPU: {bar} {words} of {have:.2f}", "good" if needed <= have else "bad")


def _parts(card: CardBudget) -> tuple[float, float, float]:
    """Weights, KV cache and engine, in GiB."""
    return _number(card.weights_gib), _number(card.kv_cache_gib), _number(card.overhead_gib)


def _needed(card: CardBudget) -> float:
    return _number(card.required_gib) or sum(_parts(card))


def _totals(plan: PlanStatus) -> str:
    parts = [
        f"weights {plan.weights_gib} GiB" if plan.weights_gib else "",
        f"KV cache {plan.kv_cache_gib} GiB" if plan.kv_cache_gib else "",
        f"needed {plan.required_gib} GiB",
    ]
    return "in all: " + ", ".join(part for part in parts if part)


def _measured(seen: Measured) -> str:
    parts = [
        f"weights {seen.weights_gib} GiB" if seen.weights_gib else "",
        f"KV cache {seen.kv_cache_gib} GiB" if seen.kv_cache_gib else "",
        f"{seen.kv_tokens} tokens" if seen.kv_tokens else "",
    ]
    return "measured on one GPU: " + ", ".join(part for part in parts if part)


def _listed(title: str, lines: list[str]) -> list[Branch]:
    return [Branch(title, "", tuple(Branch(line, "dim") for line in lines))] if lines else []


def _number(text: str | None) -> float:
    """Figures of the status are text; one that is none counts as nothing."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
