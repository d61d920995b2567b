"""The quantization method and number format of a plan: the shared decision, as a plan's settings or a refusal. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import Serving
from windlass_sizing.quantization import decision
from windlass_sizing.quantization.decision import default_dtype, of_facts
from windlass_sizing.quantization.methods import NONE
from windlass_sizing.quantization.question import FIELDS, About, Card

from windlass_api.plan.model import Refusal

VLLM = "vllm"
GPU_DTYPE, CPU_DTYPE = "float16", "bfloat16"  # where neither the user, the model nor the method asks for another
REASONS = {
    About.METHOD: "UnsupportedQuantization",
    About.CHECKPOINT: "UnsupportedQuantization",
    About.DTYPE: "UnsupportedDtype",
    About.ARCHITECTURE: "ArchitectureNotServed",
    About.CARD: "GpuWithoutKernels",
}


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine that a plan is for."""

    family: str
    beyond_limits: bool = False  # the user sets aside what our record says that it cannot run


VLLM_WITHIN_LIMITS = Engine(VLLM)


def number_format(dtype: str | None, method: str | None, facts: ModelFacts, *, on_cpu: bool) -> tuple[str, str]:
    """The number format that is asked for, else the default, and why where that is not plain."""
    if dtype:
        return dtype, ""
    dtype, why = default_dtype(method, *of_facts(facts), usual=CPU_DTYPE if on_cpu else GPU_DTYPE)
    if why:
        return dtype, f"{dtype}, because {why}"
    return dtype, "bfloat16 on the CPU; set spec.engine.dtype for another" if on_cpu else ""


def settle(serving: Serving, facts: ModelFacts, card: Card, engine: Engine) -> tuple[Serving, str] | Refusal:
    """The settings with the method and number format in effect on this card, and why; or why they cannot be."""
    if engine.family != VLLM:
        return without_methods(serving, engine.family)
    found = decision.decide(
        serving.quantization,
        serving.dtype,
        card,
        *of_facts(facts),
        words=FIELDS,
        beyond_limits=engine.beyond_limits,
    )
    if found.problem:
        return Refusal(REASONS[found.problem.about], found.problem.message, found.problem.remedy)
    beyond = f"spec.engine.ignoreEngineLimits sets aside: {found.beyond}" if found.beyond else ""
    settled = replace(serving, quantization=found.quantization, dtype=found.dtype or serving.dtype)
    return settled, "; ".join(why for why in (found.why, beyond) if why)


def without_methods(serving: Serving, family: str) -> tuple[Serving, str] | Refusal:
    """The settings of an engine that takes no method."""
    if serving.quantization is None:
        return serving, ""
    return Refusal(
        "UnsupportedQuantization",
        f"spec.image.family {family} has no quantization methods, and {serving.quantization} is asked for",
        "leave spec.engine.quantization out, or use family vllm",
    )


def planned_method(method: str | None, settled: Serving) -> str | None:
    """The method as the server gets it: the one in effect, and `none` where an asked one comes to nothing."""
    return settled.quantization or (NONE if method else None)
