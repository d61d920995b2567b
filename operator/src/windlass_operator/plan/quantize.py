"""The quantization method and number format of a plan: the shared decision, as a plan's settings or a refusal. Pure."""

from __future__ import annotations

from dataclasses import replace

from windlass_sizing import decision
from windlass_sizing.decision import FIELDS, About, Card, default_dtype, of_facts
from windlass_sizing.facts import ModelFacts
from windlass_sizing.formula import Serving
from windlass_sizing.methods import NONE

from windlass_operator.api.v1alpha1 import EngineSpec
from windlass_operator.plan.model import Refusal

VLLM = "vllm"
GPU_DTYPE, CPU_DTYPE = "float16", "bfloat16"  # where neither the user, the model nor the method asks for another
REASONS = {
    About.METHOD: "UnsupportedQuantization",
    About.CHECKPOINT: "UnsupportedQuantization",
    About.DTYPE: "UnsupportedDtype",
}


def number_format(engine: EngineSpec, facts: ModelFacts, *, on_cpu: bool) -> tuple[str, str]:
    """The number format that is asked for, else the default, and why where that is not plain."""
    if engine.dtype:
        return engine.dtype, ""
    dtype, why = default_dtype(engine.quantization, *of_facts(facts), usual=CPU_DTYPE if on_cpu else GPU_DTYPE)
    if why:
        return dtype, f"{dtype}, because {why}"
    return dtype, "bfloat16 on the CPU; set spec.engine.dtype for another" if on_cpu else ""


def settle(serving: Serving, facts: ModelFacts, card: Card, family: str) -> tuple[Serving, str] | Refusal:
    """The settings with the method and number format in effect on this card, and why; or why they cannot be."""
    if family != VLLM:
        return without_methods(serving, family)
    found = decision.decide(serving.quantization, serving.dtype, card, *of_facts(facts), words=FIELDS)
    if found.problem:
        return Refusal(REASONS[found.problem.about], found.problem.message, found.problem.remedy)
    settled = replace(serving, quantization=found.quantization, dtype=found.dtype or serving.dtype)
    return settled, found.why


def without_methods(serving: Serving, family: str) -> tuple[Serving, str] | Refusal:
    """The settings of an engine that takes no method."""
    if serving.quantization is None:
        return serving, ""
    return Refusal(
        "UnsupportedQuantization",
        f"spec.image.family {family} has no quantization methods, and {serving.quantization} is asked for",
        "leave spec.engine.quantization out, or use family vllm",
    )


def planned_method(asked: str | None, settled: Serving) -> str | None:
    """The method as the server gets it: the one in effect, and `none` where an asked one comes to nothing."""
    return settled.quantization or (NONE if asked else None)
