"""What to do when memory is short, in the documents' order, each line with what it would bring.

more or larger GPUs; `ifq` (`fp8` for mixtures of experts); a smaller max-model-len; utilization 0.95; eager mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import GPUS_MAX, Serving, demand
from windlass_sizing.placement.parallel import divides
from windlass_sizing.quantization.decision import decide, of_facts
from windlass_sizing.quantization.methods import NONE
from windlass_sizing.quantization.question import Card

PACKING = ("ifq", "fp8")  # the documents say ifq; mixtures of experts need fp8
SHORT_CONTEXT = 2048
HIGH_UTILIZATION = 0.95

# The documents' quick table: billions of parameters from, to, and cards.
QUICK_TABLE = (
    (6, 8, "6–8B: L20 × 1, A10 × 1, A100 × 1, V100 × 1"),
    (12, 14, "12–14B: L20 × 1, A10 × 2, A100 × 1, V100 × 2"),
    (65, 72, "65–72B: L20 × 8, A100 × 8"),
)
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
TABLE_SLACK = 0.06  # a "7B" has 7.6 and a "14B" 14.8 billion parameters


def quick_table(params: int) -> str:
    """The quick table's row for a model of this size; empty when it has none."""
    billions = params / 1e9
    rows = (text for low, high, text in QUICK_TABLE if low * (1 - TABLE_SLACK) <= billions <= high * (1 + TABLE_SLACK))
    return next(rows, "")


def advise(
    facts: ModelFacts,
    serving: Serving,
    gpu_gib: float,
    capability: tuple[int, int] | None = None,
    *,
    words: Mapping[str, str] = FIELDS,
    alone: bool = False,
) -> tuple[str, ...]:
    """Every step that would lower the need of a card, in order, with the figure; `alone`: no second card can help."""
    now = demand(facts, serving).per_gpu_gib
    lines = [f"a larger slice or a whole GPU: at least {now:.2f} GiB" if alone else _more_gpus(facts, serving, gpu_gib)]
    for text, changed in _steps(facts, serving, capability, words):
        then = demand(facts, changed).per_gpu_gib
        if then < now - 0.005:
            lines.append(f"{text}: {then:.2f} instead of {now:.2f} GiB a GPU{_fits(then, gpu_gib)}")
    return tuple(lines)


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
