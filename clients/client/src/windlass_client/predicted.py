"""How fast a previewed plan would be, from the same table that `windlass plan` reads. Pure."""

from __future__ import annotations

from typing import Any

from windlass_api.crd.status import PlanStatus
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import gpus
from windlass_sizing.placement.formula import Serving
from windlass_sizing.speed import words


def prediction(spec: LLMServiceSpec, facts: ModelFacts, plan: PlanStatus) -> dict[str, Any]:
    """The document of `windlass plan`; a note why there is none for the CPU and for cards that were not measured."""
    card = gpus.find(plan.gpu_type or "")
    if not plan.gpus or card is None:
        return {"note": f"no prediction for {plan.gpu_type or 'the CPU'}: it was not measured"}
    if plan.sp and plan.sp > 1:
        return {"note": "no prediction where GPUs share long prompts: it was not measured"}
    if spec.engine.speculation is not None or spec.engine.lookahead.enabled:
        return {"note": "no prediction with drafted tokens: their gain depends on the text"}
    serving = Serving(
        plan.max_model_len or facts.max_model_len,
        tp=plan.tp or 1,
        pp=plan.pp or 1,
        dtype=plan.dtype or "float16",
        quantization=plan.quantization,
        enforce_eager=spec.engine.enforce_eager,
    )
    return words.document(facts, serving, card.name, card.real_gib)
