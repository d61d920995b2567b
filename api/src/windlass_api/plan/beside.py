"""What is served beside the model, as the flags and the engine have it: adapters, and a model that drafts. Pure.

The inspect Job tells what lies there; the user's flags may give adapters other room, and not every engine has them.
"""

from __future__ import annotations

from dataclasses import replace

from windlass_sizing.model import drafter
from windlass_sizing.model.facts import ModelFacts

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import looks_ahead
from windlass_api.plan.overrides import last_given

VLLM = "vllm"
OFF = ("false", "0", "no")


def in_force(spec: LLMServiceSpec, facts: ModelFacts) -> ModelFacts | Refusal:
    """The facts with the room that adapters get by the flags; or why they, or the draft, cannot be served."""
    if spec.image.family != VLLM:
        return _without(spec, facts)
    if refusal := _draft_unlike(spec, facts):
        return refusal
    if not facts.lora_slots:
        return facts
    return _roomy(spec, facts)


def not_on_one_gpu(spec: LLMServiceSpec, tp: int) -> Refusal | None:
    """Why the lookahead cache cannot draft beside a model that `tp` GPUs share, 0 for CPUs; None where it can."""
    if spec.engine.speculation is None or not looks_ahead(spec) or tp == 1:
        return None
    where = f"{tp} GPUs share this model" if tp else "this service runs on CPUs"
    return Refusal(
        "DraftUnusable",
        f"spec.engine.speculation drafts beside lookahead on one GPU, and {where}",
        "switch lookahead off, or leave spec.engine.speculation out",
    )


def _without(spec: LLMServiceSpec, facts: ModelFacts) -> ModelFacts | Refusal:
    """An engine without adapters passes those in folders of the model over."""
    if facts.is_adapter:
        return Refusal(
            "AdapterUnusable",
            f"spec.model.source is a LoRA adapter, and spec.image.family {spec.image.family} serves none",
            "use family vllm, or merge the adapter into its base and serve the result",
        )
    return replace(facts, adapters=None, lora_slots=None)


def _roomy(spec: LLMServiceSpec, facts: ModelFacts) -> ModelFacts | Refusal:
    off = last_given(spec, "--no-enable-lora") is not None
    if off or (last_given(spec, "--enable-lora", "ENABLE_LORA") or "").casefold() in OFF:
        return replace(facts, adapters=None, lora_slots=None)
    places, rank = _number(spec, "--max-loras"), _number(spec, "--max-lora-rank")
    if rank and rank < (facts.lora_rank or 0):
        return Refusal(
            "AdapterUnusable",
            f"--max-lora-rank {rank} is less than the rank {facts.lora_rank} that the adapters need",
            "leave it out, or raise it",
        )
    return replace(facts, lora_slots=places or facts.lora_slots, lora_rank=rank or facts.lora_rank)


def _number(spec: LLMServiceSpec, flag: str) -> int | None:
    said = last_given(spec, flag) or ""
    return int(said) if said.isdecimal() and int(said) > 0 else None


def _draft_unlike(spec: LLMServiceSpec, facts: ModelFacts) -> Refusal | None:
    draft, drafting = facts.draft, spec.engine.speculation
    if draft is None or drafting is None:
        return None
    found = _no_room(drafting.tokens, spec.engine.max_model_len) or drafter.unfit(
        facts, draft, drafting.method, drafting.tokens
    )
    return Refusal("DraftUnusable", f"spec.engine.speculation: {found[0]}", found[1]) if found else None


def _no_room(tokens: int, context: int | None) -> drafter.Unfit | None:
    """No rule of the CRD: Kubernetes 1.29 would refuse each status of a stored service that breaks it."""
    if context is None or tokens < context:
        return None
    return (
        f"{tokens} tokens are to be drafted, and spec.engine.maxModelLen is {context}",
        "set spec.engine.speculation.tokens below it",
    )
