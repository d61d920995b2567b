"""What to do when memory is short, in the documents' order, each line with what it would bring.

more or larger GPUs; `ifq` (`fp8` for mixtures of experts); a smaller max-model-len; utilization 0.95; eager mode.
A plan that fits is told only of steps that save a GPU, or make room where few requests fit at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import GPUS_MAX, Serving, demand, requests_at_once, seed_demand_gib
from windlass_sizing.placement.parallel import divides, splits
from windlass_sizing.placement.words import are_few
from windlass_sizing.quantization.decision import decide, of_facts
from windlass_sizing.quantization.methods import NONE
from windlass_sizing.quantization.question import Card

PACKING = ("ifq", "fp8")  # the documents say ifq; mixtures of experts need fp8
SHORT_CONTEXT = 2048
HIGH_UTILIZATION = 0.95

# How each step is said: as a field of the resource, or as a flag.
FIELDS = {
    "quantization": "engine.quantization",
    "max_model_len": "engine.maxModelLen",
    "utilization": "engine.gpuMemoryUtilizationPercent 95",
    "enforce_eager": "engine.enforceEager true",
}
FLAGS = {
    "quantization": "--quantization",
    "max_model_len": "--max-model-len",
    "utilization": "--gpu-memory-utilization 0.95",
    "enforce_eager": "--enforce-eager",
}


class CardMemory(Protocol):
    """A kind of card, as the operator and `windlass plan` know it."""

    @property
    def real_gib(self) -> float | None:
        """GiB that the driver reports; None when nobody knows."""

    @property
    def nominal_gib(self) -> float | None:
        """GiB on the box, for the rule of thumb."""

    @property
    def capability(self) -> tuple[int, int] | None:
        """NVIDIA's compute capability."""

    @property
    def alone(self) -> bool:
        """Whether it is a slice, which a second one cannot help."""


def advise(
    facts: ModelFacts, serving: Serving, card: CardMemory, *, words: Mapping[str, str] = FIELDS
) -> tuple[str, ...]:
    """Every step that would lower the need of a card, in order, with the figure: for a model that does not fit."""
    gpu_gib, now = card.real_gib or 0, demand(facts, serving).per_gpu_gib
    larger = f"a larger slice or a whole GPU: at least {now:.2f} GiB"
    lines = [larger if card.alone else _more_gpus(facts, serving, gpu_gib)]
    for text, changed in _steps(facts, serving, card.capability, words):
        then = demand(facts, changed).per_gpu_gib
        if f"{then:.2f}" != f"{now:.2f}":
            lines.append(f"{text}: {then:.2f} instead of {now:.2f} GiB a GPU{_fits(then, gpu_gib)}")
    return tuple(lines)


def gains(
    facts: ModelFacts, serving: Serving, card: CardMemory, *, words: Mapping[str, str] = FIELDS
) -> tuple[str, ...]:
    """The steps that bring something to a plan that fits: fewer GPUs, or room where few requests fit at once."""
    if card.real_gib is None:
        return ()
    now = requests_at_once(facts, serving, card.real_gib)
    few = are_few(now, serving)
    lines = _room(facts, serving, card, now) if few else []
    least = _fewest(facts, serving, card) or serving.tp * serving.pp
    for text, changed in _steps(facts, serving, card.capability, words):
        gpus = _fewest(facts, changed, card)
        then = requests_at_once(facts, changed, card.real_gib)
        if 0 < gpus < least:
            lines.append(f"{text}: fits {gpus} GPU{'s' if gpus > 1 else ''} instead of {least}")
        elif few and then > now:
            lines.append(f"{text}: {then} requests of {changed.max_model_len} tokens at once instead of {now}")
    return tuple(lines)


def one_gpu_suffices(facts: ModelFacts, serving: Serving, card: CardMemory) -> bool:
    """Whether one GPU holds as many requests as a step computes, so that more GPUs bring no room."""
    one = replace(serving, tp=1, pp=1)
    return (
        serving.tp * serving.pp > 1
        and _holds(facts, one, card)
        and requests_at_once(facts, one, card.real_gib or 0) >= serving.sequences
    )


def _room(facts: ModelFacts, serving: Serving, card: CardMemory, now: int) -> list[str]:
    """More memory, where few requests fit at once."""
    if card.alone:
        return ["a larger slice or a whole GPU holds more requests at once"]
    for tp in range(serving.tp + 1, min(facts.num_attention_heads, GPUS_MAX) + 1):
        wider = replace(serving, tp=tp)
        then = requests_at_once(facts, wider, card.real_gib or 0) if divides(facts, tp) else 0
        if not are_few(then, serving):
            return [f"more or larger GPUs: {tp * serving.pp} of these hold {then} requests at once instead of {now}"]
    return []


def _fewest(facts: ModelFacts, changed: Serving, card: CardMemory) -> int:
    """The fewest GPUs of one node that hold the changed engine; 0 when none saves a GPU."""
    fewer = (tp for tp in sorted(splits(facts, changed.tp)) if tp < changed.tp * changed.pp)
    return next((tp for tp in fewer if _holds(facts, replace(changed, tp=tp, pp=1), card)), 0)


def _holds(facts: ModelFacts, serving: Serving, card: CardMemory) -> bool:
    """Whether such cards may be chosen: by our figure and by the rule of thumb."""
    if card.real_gib is None or card.nominal_gib is None:
        return False
    fits = demand(facts, serving).per_gpu_gib <= card.real_gib
    return fits and seed_demand_gib(facts, serving) <= card.nominal_gib * serving.tp * serving.pp


def _fits(need_gib: float, gpu_gib: float) -> str:
    return f", fits {gpu_gib:.1f} GiB" if need_gib <= gpu_gib else ""


def _more_gpus(facts: ModelFacts, serving: Serving, gpu_gib: float) -> str:
    for tp in range(serving.tp + 1, min(facts.num_attention_heads, GPUS_MAX) + 1):
        if not divides(facts, tp):
            continue
        need = demand(facts, replace(serving, tp=tp)).per_gpu_gib
        if need <= gpu_gib:
            return f"more or larger GPUs: {tp} of {gpu_gib:.1f} GiB need {need:.2f} GiB each"
    need = demand(facts, serving).per_gpu_gib
    return f"more or larger GPUs: {serving.tp} of at least {need:.2f} GiB"


def _steps(
    facts: ModelFacts, serving: Serving, capability: tuple[int, int] | None, words: Mapping[str, str]
) -> list[tuple[str, Serving]]:
    steps: list[tuple[str, Serving]] = []
    plain = facts.quantization is None and serving.quantization in (None, NONE)
    method = next((name for name in PACKING if _can_be(name, facts, serving, capability)), None)
    if plain and method:
        steps.append((f"{words['quantization']} {method}", replace(serving, quantization=method)))
    if serving.max_model_len > SHORT_CONTEXT:
        steps.append((f"{words['max_model_len']} {SHORT_CONTEXT}", replace(serving, max_model_len=SHORT_CONTEXT)))
    if serving.utilization < HIGH_UTILIZATION:
        steps.append((words["utilization"], replace(serving, utilization=HIGH_UTILIZATION)))
    if not serving.enforce_eager:
        steps.append((words["enforce_eager"], replace(serving, enforce_eager=True)))
    return steps


def _can_be(method: str, facts: ModelFacts, serving: Serving, capability: tuple[int, int] | None) -> bool:
    """Whether the method runs on these cards, in this number format, on this model."""
    return decide(method, serving.dtype, Card("", capability), *of_facts(facts)).problem is None
