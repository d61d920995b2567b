"""Decides, before any GPU is taken: which GPU, how many, how the model is split, how long its context may be.

`decide` is a function of values: the spec, the model's facts, the cluster's cards. It answers with a plan that carries
its reasons, or with a refusal that says what to do. The reconcile loop and `kubectl windlass plan` call it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import advice, words
from windlass_sizing.placement.formula import Serving, requests_at_once
from windlass_sizing.placement.sequence import split_instead, split_prompts

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.beside import HostDraft, cannot_draft, in_force, on_host
from windlass_api.plan.cards import Card, group_selector
from windlass_api.plan.contradictions import contradiction
from windlass_api.plan.cpu import cpu_plan
from windlass_api.plan.drafts import captures_draft_model, slow_draft_model, too_many
from windlass_api.plan.host import Host, Load, host_for, shm_gib
from windlass_api.plan.layout import Layout, parallelism
from windlass_api.plan.model import (
    RAY,
    Inventory,
    Placement,
    Plan,
    Refusal,
    product_label,
)
from windlass_api.plan.offload import Running
from windlass_api.plan.options import Option, alternatives, on_one_node, preferred
from windlass_api.plan.prefix_offload import too_large, without_effect
from windlass_api.plan.quantize import planned_method
from windlass_api.plan.refuse import does_not_fit, not_enough, usable_cards
from windlass_api.plan.requested import Requested, read_requested
from windlass_api.plan.split import can_be_split, not_split
from windlass_api.plan.spread import over_nodes
from windlass_api.plan.start import Start, start_of, unplanned_model


@dataclass(frozen=True, slots=True)
class PlanNotes:
    """What a plan says beside its figures."""

    requested: Requested
    alternatives: tuple[str, ...]
    placement: tuple[str, ...]  # why these nodes, and as many GPUs
    host_draft: HostDraft | None = None


def decide(
    spec: LLMServiceSpec, facts: ModelFacts, inventory: Inventory, *, keep: Placement | None = None
) -> Plan | Refusal:
    """The plan for one replica, or why there is none.

    `keep` is the placement that runs already for this same spec: while it still fits, it stays, whatever nodes join.
    """
    start = start_of(spec)
    served = contradiction(start) or in_force(start, facts)
    return served if isinstance(served, Refusal) else _decided(start, served, inventory, keep)


def _decided(start: Start, facts: ModelFacts, inventory: Inventory, keep: Placement | None) -> Plan | Refusal:
    drafting = on_host(start, facts)
    if drafting:
        facts = replace(facts, draft=None)  # no GPU holds it
    requested = read_requested(start, facts)
    if isinstance(requested, Refusal):
        return requested
    length = requested.serving.max_model_len
    if refusal := too_many(start, length) or not_split(start, facts, requested.layout):
        return refusal
    if requested.layout.gpus == 0:
        refusal = parallelism(requested.layout, facts, 0) or cannot_draft(start, 0)
        return refusal or cpu_plan(start, facts, requested)
    found = usable_cards(start.spec, inventory, requested, facts)
    if isinstance(found, Refusal):
        return found
    if refusal := parallelism(requested.layout, facts, max(card.most_per_node for card in found)):
        return refusal
    alone = on_one_node(facts, found, requested) if requested.layout.nodes_min == 1 else []
    spread = _spread(facts, found, requested, (alone, keep))
    fitting = [option for option in (*alone, *spread) if option.acceptable]
    if not fitting:
        every = [*alone, *spread]
        return does_not_fit(facts, every) if every else not_enough(found, requested, facts)
    # Where nothing can draft beside any of them, the refusal below says it of the preferred one.
    fitting = [one for one in fitting if not cannot_draft(start, one.serving.tp, one.serving.pp)] or fitting
    # One node if it fits there.
    near = [option for option in fitting if option.nodes == 1] or fitting
    kept = [option for option in fitting if keep == Placement(option.card.name, option.gpus, option.nodes)]
    chosen = preferred(kept or near)
    notes = PlanNotes(
        requested,
        alternatives(fitting, chosen),
        _because_of_placement(chosen, requested.layout, alone),
        drafting,
    )
    plan = _gpu_plan(start, facts, chosen, notes)
    large = too_large(start, plan, shm_gib(plan.gpus_per_pod), chosen.card.node_gib)
    return large or cannot_draft(start, plan.tp, plan.pp) or plan


def _spread(
    facts: ModelFacts, found: tuple[Card, ...], requested: Requested, known: tuple[list[Option], Placement | None]
) -> list[Option]:
    """The options over several nodes: of cards of which one node is not enough, and of a group that runs already."""
    if requested.layout.nodes_max == 1:
        return []
    alone, keep = known
    group = keep.gpu_type if keep and keep.nodes > 1 else None
    enough = {option.card for option in alone if option.acceptable and option.card.name != group}
    return over_nodes(facts, [card for card in found if card not in enough and not card.alone], requested)


def _because_of_placement(chosen: Option, layout: Layout, alone: list[Option]) -> tuple[str, ...]:
    """Why these nodes, and why no fewer GPUs where the engine's figures alone would take them."""
    tight = [one for one in alone if one.fits and not one.acceptable and one.card.real_gib and one.cost < chosen.cost]
    cheapest = min(tight, key=lambda option: option.cost, default=None)
    rule = (f"not {cheapest.where()}: {words.rule_of_thumb(cheapest.seed_gib)}",) if cheapest else ()
    return (*_because_of_nodes(chosen, layout, alone), *rule)


def _because_of_nodes(chosen: Option, layout: Layout, alone: list[Option]) -> tuple[str, ...]:
    if chosen.nodes == 1:
        return ()
    if layout.nodes_min > 1:
        return (f"{chosen.nodes} nodes, as spec.deployment asks",)
    largest = max(alone, key=lambda option: option.cost, default=None)
    if largest is None:
        return (f"{chosen.nodes} nodes: no single node has {layout.gpu_count} × {chosen.card.name}",)
    return (f"{chosen.nodes} nodes: no single node holds it, not even {largest.sentence()}",)


def _joined_by(spec: LLMServiceSpec, nodes: int) -> str | None:
    if nodes == 1:
        return None
    return RAY if spec.deployment.group == "Auto" else spec.deployment.group


def _steps(serving: Serving) -> tuple[str, ...]:
    long = serving.max_model_len > serving.tokens_a_step
    return (f"prompts are read in steps of {serving.tokens_a_step} tokens",) if long else ()


def _at_once(facts: ModelFacts, chosen: Option) -> tuple[str, ...]:
    if chosen.card.real_gib is None:
        return ()
    each = requests_at_once(facts, chosen.serving, chosen.card.real_gib)
    return (words.at_once(each * chosen.workers, chosen.serving),)


def _too_many(facts: ModelFacts, chosen: Option, layout: Layout) -> tuple[str, ...]:
    """A warning of a number of GPUs that the user gave and that brings nothing."""
    if not layout.counted or not advice.one_gpu_suffices(facts, chosen.serving, chosen.card):
        return ()
    given = {
        "spec.deployment": layout.nodes_min > 1,
        "spec.engine.tensorParallelSize": layout.tp,
        "spec.engine.pipelineParallelSize": layout.pp,
    }
    without = " and ".join(name for name, value in given.items() if value)
    remedy = f"set spec.resources.gpus to {layout.copies}" + (f", and leave out {without}" if without else "")
    return (words.one_suffices(chosen.serving, remedy),)


def _split_instead(start: Start, facts: ModelFacts, chosen: Option, notes: PlanNotes) -> tuple[str, ...]:
    """The advice to share prompts, only where the size would be taken."""
    if chosen.nodes > 1 or not can_be_split(start, facts, notes.requested.layout):
        return ()
    return split_instead(facts, chosen.serving, chosen.card.real_gib, sp=chosen.sp)


def _load(start: Start, facts: ModelFacts, chosen: Option, notes: PlanNotes) -> Load:
    """One pod's share of the replica."""
    drafting = notes.host_draft
    need, serving, engines, card = chosen.need, chosen.serving, chosen.workers, chosen.card
    gpus = chosen.gpus // chosen.nodes
    taken_gib = (card.real_gib or 0) * serving.utilization * gpus if card.has_host_memory else 0.0
    needed_gib = need.required_gib * engines * chosen.sp / chosen.nodes
    # A card of unknown memory is taken for one that has just what is needed.
    full = requests_at_once(facts, serving, card.real_gib or need.per_gpu_gib)
    return Load(
        weights_gib=need.weights_gib * engines / chosen.nodes,
        video_gib=max(needed_gib, taken_gib),
        takes_all=taken_gib > needed_gib,
        gpus=gpus,
        engines=engines,
        nodes=chosen.nodes,
        several_apis=chosen.nodes == 1 and not facts.multimodal,  # each would keep images of its own
        captures_draft=captures_draft_model(start, facts, chosen.gpus, engines),
        host_draft_gib=drafting.gib(serving.sequences) * engines if drafting else 0.0,
        draft_threads=drafting.threads if drafting else None,
        running=Running(min(serving.sequences, full + 1), serving.max_model_len),
    )


def _gpu_plan(start: Start, facts: ModelFacts, chosen: Option, notes: PlanNotes) -> Plan:
    card, need, serving, copies = chosen.card, chosen.need, chosen.serving, chosen.workers * chosen.sp
    host = host_for(start, _load(start, facts, chosen, notes))
    return Plan(
        gpus=chosen.gpus,
        tp=serving.tp,
        pp=serving.pp,
        sp=chosen.sp,
        nodes=chosen.nodes,
        gpu_type=card.name,
        max_model_len=serving.max_model_len,
        dtype=serving.dtype,
        quantization=planned_method(notes.requested.quantization, serving),
        gpu_memory_utilization_percent=round(serving.utilization * 100),
        enforce_eager=serving.enforce_eager,
        weights_gib=need.weights_gib * copies,
        kv_gib=need.kv_gib * copies,
        required_gib=need.required_gib * copies,
        seed_required_gib=chosen.seed_gib,
        cpu=host.cpu,
        memory=host.memory,
        shm=host.shm,
        host_parts=host.figures,
        node_selector=_selector(card, start.spec.resources.resource_group),
        group=_joined_by(start.spec, chosen.nodes),
        workers=chosen.workers,
        overhead_gib=need.overhead_gib,
        per_gpu_gib=need.per_gpu_gib,
        card_gib=card.real_gib,
        alternatives=notes.alternatives,
        advice=(*advice.gains(facts, serving, card), *_split_instead(start, facts, chosen, notes)),
        because=(
            *_because(facts, chosen, notes),
            *slow_draft_model(start, facts, chosen.gpus, copies),
            *without_effect(start),
            *unplanned_model(start),
            *_because_of_host(host, chosen.nodes),
        ),
        resource=card.resource,
        base=facts.base_path or "",
        prefix_offload_mib=host.prefix_offload_mib,
        draft_threads=host.draft_threads,
        api_processes=host.api_processes,
    )


def _selector(card: Card, group: str | None) -> tuple[tuple[str, str], ...]:
    """The labels of the nodes that have the card."""
    product = ((product_label(card.resource), card.product),) if card.product else ()
    return (*product, *group_selector(group))


def _because(facts: ModelFacts, chosen: Option, notes: PlanNotes) -> tuple[str, ...]:
    """The reasons for the GPUs, their number and their split."""
    serving, engines = chosen.serving, chosen.workers
    return (
        chosen.sentence(),
        *notes.placement,
        *words.figures(facts, chosen.need, serving),
        *((f"{engines} engines, each with all of this, as spec.engine.workers asks",) if engines > 1 else ()),
        *split_prompts(facts, serving.tp, chosen.sp),
        *_at_once(facts, chosen),
        *_too_many(facts, chosen, notes.requested.layout),
        *words.heads_over(facts, serving.tp),
        *notes.requested.notes,
        *((chosen.why,) if chosen.why else ()),
        *_steps(serving),
    )


def _because_of_host(host: Host, nodes: int) -> tuple[str, ...]:
    """The reasons for what a pod asks of its node."""
    memory = host.because + (" on each node" if nodes > 1 else "")
    return (memory, *(reason for reason in (host.cpu_because, host.api_because) if reason))
