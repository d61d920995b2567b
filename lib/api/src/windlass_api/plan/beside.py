"""What is served beside the model, as the flags and the engine have it: adapters, and a model that drafts. Pure.

The inspect Job tells what lies there; the user's flags may give adapters other room, and not every engine has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass_sizing.model import drafter
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import host_draft
from windlass_sizing.settings.in_force import Settings
from windlass_sizing.settings.values import SWITCH_WORDS

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Refusal
from windlass_api.plan.start import Start

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


def in_force(start: Start, facts: ModelFacts) -> ModelFacts | Refusal:
    """The facts with the room that adapters get by the flags; or why they, or the draft, cannot be served."""
    if not start.is_vllm:
        return _without(start.spec, facts)
    if refusal := _draft_unlike(start, facts):
        return refusal
    if facts.is_adapter and _is_off(start.settings) and not merges(start) and start.is_ours:
        return Refusal(
            "AdapterUnusable",
            "spec.model.source is a LoRA adapter, and --enable-lora (ENABLE_LORA) is false",
            "leave that out, merge the adapter (spec.model.merge), or serve a complete model",
        )
    if not facts.lora_slots:
        return facts
    return _roomy(start.settings, facts)


def on_host(start: Start, facts: ModelFacts) -> HostDraft | None:
    """What drafts on the host's cores; None where nothing does."""
    if facts.draft is None or not start.drafts_on_cpu:
        return None
    text, threads = str(start.settings.value("cpu-draft-bits")), start.settings.whole("cpu-draft-threads")
    bits = int(text) if text.isdecimal() else 0
    return HostDraft(
        facts.draft,
        bits if bits in host_draft.WEIGHT_BYTES else 8,
        threads if threads and threads <= host_draft.CORES_MAX else None,  # the server refuses any other number
    )


def cannot_draft(start: Start, tp: int, pp: int = 1) -> Refusal | None:
    """Why nothing can draft beside a model that `tp` GPUs share, 0 for CPUs, in `pp` stages; None where it can."""
    if start.spec.engine.speculation is None:
        return None
    rules = RULES_ON_CPU if start.drafts_on_cpu else (_beside_lookahead,)
    found = next((unfit for rule in rules if (unfit := rule(start, tp, pp))), None)
    return Refusal("DraftUnusable", *found) if found else None


def _beside_lookahead(start: Start, tp: int, pp: int) -> drafter.Unfit | None:
    if not start.looks_ahead or tp == 1:
        return None
    where = f"{tp} GPUs share this model" if tp else "this service runs on CPUs"
    return (
        f"spec.engine.speculation drafts beside lookahead on one GPU, and {where}",
        "switch lookahead off, or leave spec.engine.speculation out",
    )


def _beside_no_gpu(start: Start, tp: int, pp: int) -> drafter.Unfit | None:
    if tp:
        return None
    return f"{ON_HOST} beside a GPU, and this service runs on CPUs", "leave that out"


def _over_stages(start: Start, tp: int, pp: int) -> drafter.Unfit | None:
    if pp == 1:
        return None
    return (
        f"{ON_HOST}, which is not possible for a model in {pp} stages",
        "set spec.engine.pipelineParallelSize to 1, or leave spec.engine.speculation out",
    )


def _older_runner(start: Start, tp: int, pp: int) -> drafter.Unfit | None:
    if not any((one.name, one.value) == (V2_RUNNER, "0") for one in start.spec.env):
        return None
    return f"{ON_HOST} with the engine's V2 runner, and {V2_RUNNER} is 0", f"leave {V2_RUNNER} out"


RULES_ON_CPU: tuple[Callable[[Start, int, int], drafter.Unfit | None], ...] = (
    _beside_no_gpu,
    _over_stages,
    _older_runner,
)
"""Of what drafts on the host's cores."""


def _without(spec: LLMServiceSpec, facts: ModelFacts) -> ModelFacts | Refusal:
    """An engine without adapters passes those in folders of the model over."""
    if facts.is_adapter:
        return Refusal(
            "AdapterUnusable",
            f"spec.model.source is a LoRA adapter, and spec.image.family {spec.image.family} serves none",
            "use family vllm, or merge the adapter into its base and serve the result",
        )
    return replace(facts, adapters=None, lora_slots=None)


def _roomy(settings: Settings, facts: ModelFacts) -> ModelFacts | Refusal:
    if _is_off(settings):
        return replace(facts, adapters=None, lora_slots=None)
    places, rank = settings.whole("max-loras"), settings.whole("max-lora-rank")
    if rank and rank < (facts.lora_rank or 0):
        return Refusal(
            "AdapterUnusable",
            f"--max-lora-rank {rank} is less than the rank {facts.lora_rank} that the adapters need",
            "leave it out, or raise it",
        )
    return replace(facts, lora_slots=places or facts.lora_slots, lora_rank=rank or facts.lora_rank)


def merges(start: Start) -> bool:
    """Whether an adapter becomes part of the weights, which needs no LoRA of the engine's."""
    is_asked = merges_by_words(start.settings) if start.settings.is_given("merge-lora") else start.spec.model.merge
    return is_asked or any(adapter.merge for adapter in start.spec.model.adapters or ())


def merges_by_words(settings: Settings) -> bool:
    """Whether a flag or variable names an adapter that becomes part of the weights."""
    name = settings.value("merge-lora")
    return name is not None and SWITCH_WORDS.get(str(name).casefold()) is not False


def _is_off(settings: Settings) -> bool:
    """Whether the user's words switch the engine's adapters off."""
    return settings.value("enable-lora") is False


def _draft_unlike(start: Start, facts: ModelFacts) -> Refusal | None:
    draft, drafting = facts.draft, start.spec.engine.speculation
    if draft is None or drafting is None:
        return None
    found = (
        _no_room(drafting.tokens, start.spec.engine.max_model_len)
        or drafter.unfit(facts, draft, drafting.method, drafting.tokens)
        or (_unfit_on_host(drafting.method, draft) if start.drafts_on_cpu else None)
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
