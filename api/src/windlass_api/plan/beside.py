"""What is served beside the model, as the flags and the engine have it: adapters, and a model that drafts. Pure.

The inspect Job tells what lies there; the user's flags may give adapters other room, and not every engine has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass_sizing.model import drafter
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import host_draft

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import drafts_on_cpu, looks_ahead
from windlass_api.plan.overrides import NO, VLLM, last_given, runs_windlass, switched

THREADS, BITS = ("--cpu-draft-threads", "CPU_DRAFT_THREADS"), ("--cpu-draft-bits", "CPU_DRAFT_BITS")
V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
ON_HOST = "spec.engine.speculation drafts on the host's cores (runsOn cpu, or --cpu-draft-worker)"


@dataclass(frozen=True, slots=True)
class HostDraft:
    """A draft model on the host's cores, in each engine of a pod."""

    facts: ModelFacts
    bits: int
    threads: int | None  # that the user's flag asks for

    def gib(self, requests: int) -> float:
        """Host memory of one engine's, for so many requests at once."""
        return host_draft.host_draft_gib(self.facts, requests, self.bits)


def in_force(spec: LLMServiceSpec, facts: ModelFacts) -> ModelFacts | Refusal:
    """The facts with the room that adapters get by the flags; or why they, or the draft, cannot be served."""
    if spec.image.family != VLLM:
        return _without(spec, facts)
    if refusal := _draft_unlike(spec, facts):
        return refusal
    if facts.is_adapter and _is_off(spec) and not merges(spec) and runs_windlass(spec):
        return Refusal(
            "AdapterUnusable",
            "spec.model.source is a LoRA adapter, and --enable-lora (ENABLE_LORA) is false",
            "leave that out, merge the adapter (spec.model.merge), or serve a complete model",
        )
    if not facts.lora_slots:
        return facts
    return _roomy(spec, facts)


def on_host(spec: LLMServiceSpec, facts: ModelFacts) -> HostDraft | None:
    """What drafts on the host's cores; None where nothing does."""
    if facts.draft is None or not drafts_on_cpu(spec):
        return None
    bits, threads = _number(spec, *BITS), _number(spec, *THREADS)
    return HostDraft(
        facts.draft,
        bits if bits in host_draft.WEIGHT_BYTES else 8,
        threads if threads and threads <= host_draft.CORES_MAX else None,  # the server refuses any other number
    )


def cannot_draft(spec: LLMServiceSpec, tp: int, pp: int = 1) -> Refusal | None:
    """Why nothing can draft beside a model that `tp` GPUs share, 0 for CPUs, in `pp` stages; None where it can."""
    if spec.engine.speculation is None:
        return None
    found = next((said for rule in PLACES[drafts_on_cpu(spec)] if (said := rule(spec, tp, pp))), None)
    return Refusal("DraftUnusable", *found) if found else None


def _beside_lookahead(spec: LLMServiceSpec, tp: int, pp: int) -> drafter.Unfit | None:
    if not looks_ahead(spec) or tp == 1:
        return None
    where = f"{tp} GPUs share this model" if tp else "this service runs on CPUs"
    return (
        f"spec.engine.speculation drafts beside lookahead on one GPU, and {where}",
        "switch lookahead off, or leave spec.engine.speculation out",
    )


def _beside_no_gpu(spec: LLMServiceSpec, tp: int, pp: int) -> drafter.Unfit | None:
    if tp:
        return None
    return f"{ON_HOST} beside a GPU, and this service runs on CPUs", "leave that out"


def _over_stages(spec: LLMServiceSpec, tp: int, pp: int) -> drafter.Unfit | None:
    if pp == 1:
        return None
    return (
        f"{ON_HOST}, which is not possible for a model in {pp} stages",
        "set spec.engine.pipelineParallelSize to 1, or leave spec.engine.speculation out",
    )


def _older_runner(spec: LLMServiceSpec, tp: int, pp: int) -> drafter.Unfit | None:
    if not any((one.name, one.value) == (V2_RUNNER, "0") for one in spec.env):
        return None
    return f"{ON_HOST} with the engine's V2 runner, and {V2_RUNNER} is 0", f"leave {V2_RUNNER} out"


PLACES: dict[bool, tuple[Callable[[LLMServiceSpec, int, int], drafter.Unfit | None], ...]] = {
    False: (_beside_lookahead,),
    True: (_beside_no_gpu, _over_stages, _older_runner),
}
"""By whether the host's cores draft."""


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
    if _is_off(spec):
        return replace(facts, adapters=None, lora_slots=None)
    places, rank = _number(spec, "--max-loras"), _number(spec, "--max-lora-rank")
    if rank and rank < (facts.lora_rank or 0):
        return Refusal(
            "AdapterUnusable",
            f"--max-lora-rank {rank} is less than the rank {facts.lora_rank} that the adapters need",
            "leave it out, or raise it",
        )
    return replace(facts, lora_slots=places or facts.lora_slots, lora_rank=rank or facts.lora_rank)


def merges(spec: LLMServiceSpec) -> bool:
    """Whether an adapter becomes part of the weights, which needs no LoRA of the engine's."""
    said = last_given(spec, "--merge-lora", "MERGE_LORA")
    asked = spec.model.merge if said is None else said.casefold() not in NO
    return asked or any(adapter.merge for adapter in spec.model.adapters or ())


def _is_off(spec: LLMServiceSpec) -> bool:
    """Whether the user's words switch the engine's adapters off."""
    return switched(spec, "--enable-lora", "ENABLE_LORA") is False


def _number(spec: LLMServiceSpec, flag: str, variable: str = "") -> int | None:
    said = last_given(spec, flag, variable) or ""
    return int(said) if said.isdecimal() and int(said) > 0 else None


def _draft_unlike(spec: LLMServiceSpec, facts: ModelFacts) -> Refusal | None:
    draft, drafting = facts.draft, spec.engine.speculation
    if draft is None or drafting is None:
        return None
    found = (
        _no_room(drafting.tokens, spec.engine.max_model_len)
        or drafter.unfit(facts, draft, drafting.method, drafting.tokens)
        or (_unfit_on_host(drafting.method, draft) if drafts_on_cpu(spec) else None)
    )
    return Refusal("DraftUnusable", f"spec.engine.speculation: {found[0]}", found[1]) if found else None


def _unfit_on_host(method: str, draft: ModelFacts) -> drafter.Unfit | None:
    if method != drafter.DRAFT_MODEL:
        return f"the host's cores run complete draft models, and the method is {method}", "let the head run on the GPU"
    return host_draft.unfit(draft)


def _no_room(tokens: int, context: int | None) -> drafter.Unfit | None:
    """No rule of the CRD: Kubernetes 1.29 would refuse each status of a stored service that breaks it."""
    if context is None or tokens < context:
        return None
    return (
        f"{tokens} tokens are to be drafted, and spec.engine.maxModelLen is {context}",
        "set spec.engine.speculation.tokens below it",
    )
