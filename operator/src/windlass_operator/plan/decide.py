"""Decides, before any GPU is taken: which GPU, how many, how the model is split, how long its context may be.

`decide` is a function of values: the spec, the model's facts, the cluster's cards. It answers with a plan that carries
its reasons, or with a refusal that says what to do. The reconcile loop and `kubectl windlass plan` call it.
"""

from __future__ import annotations

from windlass_sizing import advice, formula
from windlass_sizing.facts import ModelFacts
from windlass_sizing.formula import Demand
from windlass_sizing.methods import runs_on

from windlass_operator.api.v1alpha1 import LLMServiceSpec
from windlass_operator.plan.cards import Card, cards, largest_node, wanted_nodes
from windlass_operator.plan.host import host_for
from windlass_operator.plan.model import GPU_PRODUCT_LABEL, RESOURCE_GROUP_LABEL, Inventory, Placement, Plan, Refusal
from windlass_operator.plan.options import Option, alternatives, options, preferred
from windlass_operator.plan.wishes import Wishes, parallelism, read_wishes


def decide(
    spec: LLMServiceSpec, facts: ModelFacts, inventory: Inventory, *, keep: Placement | None = None
) -> Plan | Refusal:
    """The plan for one replica, or why there is none.

    `keep` is the placement that runs already for this same spec: while it still fits, it stays, whatever nodes join.
    """
    wishes = read_wishes(spec, facts)
    if isinstance(wishes, Refusal):
        return wishes
    if wishes.gpus == 0:
        return parallelism(wishes, facts) or _cpu_plan(spec, facts, wishes)
    found = _cards(spec, inventory, wishes)
    if isinstance(found, Refusal):
        return found
    if refusal := parallelism(wishes, facts):
        return refusal
    every = options(facts, found, wishes)
    # A count that the user gave is checked against our figure only: it is theirs to be tighter than the quick formula.
    fitting = [option for option in every if option.fits and (wishes.gpus or option.fits_quick_formula)]
    if not fitting:
        return _does_not_fit(facts, every)
    kept = [option for option in fitting if keep == Placement(option.card.name, option.gpus)]
    chosen = kept[0] if kept else preferred(fitting)
    return _gpu_plan(spec, facts, chosen, (wishes, alternatives(fitting, chosen, facts)))


def _cards(spec: LLMServiceSpec, inventory: Inventory, wishes: Wishes) -> tuple[Card, ...] | Refusal:
    """The kinds of card that may be taken, or why there are none."""
    everywhere = cards(inventory.nodes)
    if not everywhere:
        return Refusal(
            "NoGpuNodes",
            "no node of the cluster offers nvidia.com/gpu",
            "add a GPU node with NVIDIA's device plugin, or set spec.resources.gpus to 0 to serve on the CPU",
        )
    nodes = wanted_nodes(inventory, spec.resources.gpu_type, spec.resources.resource_group)
    if not nodes:
        return _not_found(spec, everywhere)
    largest = largest_node(nodes)
    if wishes.gpus and wishes.gpus > largest.allocatable:
        return Refusal(
            "NotEnoughGpus",
            f"{wishes.gpus} GPUs are asked for a replica, and the largest node ({largest.node}) has "
            f"{largest.allocatable} × {largest.product or 'GPU'}",
            f"set spec.resources.gpus to {largest.allocatable} or less, or add a larger node",
        )
    return _able(cards(nodes), wishes.quantization)


def _not_found(spec: LLMServiceSpec, everywhere: tuple[Card, ...]) -> Refusal:
    asked = [f"type {spec.resources.gpu_type}"] if spec.resources.gpu_type else []
    asked += [f"resource group {spec.resources.resource_group}"] if spec.resources.resource_group else []
    there = ", ".join(f"{card.most_per_node} × {card.product or 'unnamed GPU'}" for card in everywhere)
    return Refusal(
        "GpuTypeNotFound",
        f"no GPU node of {' and '.join(asked)}; the largest nodes have: {there}",
        "correct spec.resources.gpuType or spec.resources.resourceGroup, or leave them out",
    )


def _able(found: tuple[Card, ...], method: str | None) -> tuple[Card, ...] | Refusal:
    able = tuple(card for card in found if runs_on(method, card.capability))
    if able:
        return able
    have = ", ".join(f"{card.name} has {'.'.join(map(str, card.capability or ()))}" for card in found)
    return Refusal(
        "UnsupportedQuantization",
        f"quantization {method} needs a GPU of a newer compute capability; {have}",
        "set spec.engine.quantization to ifq (7.0 and newer), auto or none",
    )


def _does_not_fit(facts: ModelFacts, every: list[Option]) -> Refusal:
    best = max(every, key=lambda option: option.cost)
    remedies = advice.advise(facts, best.serving, best.card.real_gib or 0, best.card.capability)
    figures = "; ".join(_figures(facts, best.need, best.serving.max_model_len))
    if best.fits:
        figures = (
            f"the quick formula asks for {best.seed_gib:.2f} GiB; set spec.resources.gpus to overrule it; {figures}"
        )
    return Refusal(
        "DoesNotFit",
        f"the model does not fit the largest placement, {best.sentence()}: {figures}",
        "in this order: " + "; ".join(remedies),
    )


def _figures(facts: ModelFacts, need: Demand, length: int) -> tuple[str, ...]:
    return (
        f"weights {need.weights_gib:.2f} GiB ({facts.params_text} parameters, {facts.params_how})",
        f"KV cache {need.kv_gib:.2f} GiB for one context of {length} tokens",
        f"{need.overhead_gib:.2f} GiB a GPU for the engine itself",
    )


def _group(spec: LLMServiceSpec) -> tuple[tuple[str, str], ...]:
    group = spec.resources.resource_group
    return ((RESOURCE_GROUP_LABEL, group),) if group else ()


def _gpu_plan(spec: LLMServiceSpec, facts: ModelFacts, chosen: Option, told: tuple[Wishes, tuple[str, ...]]) -> Plan:
    card, need, serving = chosen.card, chosen.need, chosen.serving
    wishes, others = told
    host = host_for(spec.resources, need.weights_gib, need.required_gib, chosen.gpus)
    because = (
        chosen.sentence(),
        *_figures(facts, need, serving.max_model_len),
        f"quick formula: {chosen.seed_gib:.2f} GiB in all",
        f"{facts.num_attention_heads} heads % {serving.tp} == 0",
        *wishes.notes,
        host.because,
    )
    product = ((GPU_PRODUCT_LABEL, card.product),) if card.product else ()
    return Plan(
        gpus=chosen.gpus,
        tp=serving.tp,
        pp=serving.pp,
        nodes=1,
        gpu_type=card.name,
        max_model_len=serving.max_model_len,
        dtype=serving.dtype,
        quantization=wishes.quantization,
        gpu_memory_utilization_percent=round(serving.utilization * 100),
        enforce_eager=serving.enforce_eager,
        weights_gib=need.weights_gib,
        kv_gib=need.kv_gib,
        required_gib=need.required_gib,
        seed_required_gib=chosen.seed_gib,
        cpu=host.cpu,
        memory=host.memory,
        shm=host.shm,
        node_selector=(*product, *_group(spec)),
        alternatives=others,
        advice=advice.advise(facts, serving, card.real_gib or 0, card.capability),
        because=because,
    )


def _cpu_plan(spec: LLMServiceSpec, facts: ModelFacts, wishes: Wishes) -> Plan:
    serving = wishes.serving
    need = formula.cpu_demand(facts, serving)
    host = host_for(spec.resources, need.weights_gib, need.required_gib, 1)
    return Plan(
        gpus=0,
        tp=1,
        pp=1,
        nodes=1,
        gpu_type=None,
        max_model_len=serving.max_model_len,
        dtype=serving.dtype,
        quantization=wishes.quantization,
        gpu_memory_utilization_percent=round(serving.utilization * 100),
        enforce_eager=serving.enforce_eager,
        weights_gib=need.weights_gib,
        kv_gib=need.kv_gib,
        required_gib=need.required_gib,
        seed_required_gib=formula.seed_demand_gib(facts, serving),
        cpu=host.cpu,
        memory=host.memory,
        shm=host.shm,
        node_selector=_group(spec),
        because=(
            "spec.resources.gpus is 0: served on the CPU",
            *_figures(facts, need, serving.max_model_len)[:2],
            *wishes.notes,
            host.because,
        ),
    )
