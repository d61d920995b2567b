"""The refusals of planning that speak of the cluster: which cards may be taken, and why none will do. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import advice, gpus, words
from windlass_sizing.placement.parallel import group_splits
from windlass_sizing.quantization.engine import ENGINE

from windlass_api.crd.v1alpha1 import LLMServiceSpec, ResourcesSpec
from windlass_api.plan.cards import Card, cards, wanted_nodes
from windlass_api.plan.model import Inventory, NodeGpus, Refusal
from windlass_api.plan.nodes import has_labels, node_selector, required_affinity, untolerated
from windlass_api.plan.options import Option
from windlass_api.plan.quantize import settle
from windlass_api.plan.requested import Requested

NAMED_MAX = 4  # nodes, or taints, that a refusal names


def usable_cards(
    spec: LLMServiceSpec, inventory: Inventory, requested: Requested, facts: ModelFacts
) -> tuple[Card, ...] | Refusal:
    """The kinds of card that may be taken, or why there are none."""
    resources = spec.resources
    everywhere = cards(inventory.nodes)
    if not everywhere:
        return Refusal(
            "NoGpuNodes",
            "no node of the cluster offers nvidia.com/gpu",
            "add a GPU node with NVIDIA's device plugin, or set spec.resources.gpus to 0 to serve on the CPU",
        )
    candidates = wanted_nodes(inventory, resources.gpu_type, resources.resource_group)
    if not candidates:
        return _not_found(resources, everywhere)
    labelled = [node for node in candidates if has_labels(node, spec)]
    if not labelled:
        return _not_labelled(spec, candidates)
    found = cards(node for node in labelled if untolerated(node, spec) is None)
    if not found:
        return _all_tainted(spec, labelled)
    if requested.layout.nodes_max == 1 and (requested.layout.gpu_count or 0) > max(
        card.most_per_node for card in found
    ):
        return not_enough(found, requested, facts)
    served = tuple(card for card in found if _has_kernels(requested.family, card))
    return _able(served, requested, facts) if served else _too_old(found, requested.family)


def _has_kernels(family: str | None, card: Card) -> bool:
    """Whether our image of this engine runs on the card; an unknown image or card is given the benefit."""
    return family not in ENGINE.cards or card.capability is None or ENGINE.has_code(card.capability, family)


def _too_old(found: tuple[Card, ...], family: str | None) -> Refusal:
    others = [name for name in ENGINE.cards if all(_has_kernels(name, card) for card in found)]
    instead = f"set spec.image.family to {others[0]}, " if others else ""
    return Refusal(
        "GpuWithoutKernels",
        f"the {family} image needs compute capability {_dotted(ENGINE.least(family or ''))}; {_have(found)}",
        f"{instead}name an image of your own in spec.image.repository, or add a newer GPU",
    )


def _not_found(resources: ResourcesSpec, everywhere: tuple[Card, ...]) -> Refusal:
    named = [f"type {resources.gpu_type}"] if resources.gpu_type else []
    named += [f"resource group {resources.resource_group}"] if resources.resource_group else []
    there = ", ".join(f"{card.most_per_node} × {card.product or card.name}" for card in everywhere)
    if foreign := gpus.refusal(resources.gpu_type or ""):
        return Refusal(
            "GpuTypeNotFound",
            f"spec.resources.gpuType: {foreign}; the largest nodes have: {there}",
            "name one of these in spec.resources.gpuType, or set spec.resources.gpus to 0 to serve on the CPU",
        )
    return Refusal(
        "GpuTypeNotFound",
        f"no GPU node of {' and '.join(named)}; the largest nodes have: {there}",
        "correct spec.resources.gpuType or spec.resources.resourceGroup, or leave them out",
    )


def _not_labelled(spec: LLMServiceSpec, matching: Iterable[NodeGpus]) -> Refusal:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(node_selector(spec).items()))
    words = [f"the labels {labels}"] if labels else []
    words += ["what the required node affinity of spec.podTemplate asks for"] if required_affinity(spec) else []
    return Refusal(
        "NoMatchingNode",
        f"no GPU node that may be taken has {' and '.join(words)}; these are: {_named(matching)}",
        "correct spec.scheduling.nodeSelector, spec.podTemplate or the nodes' labels",
    )


def _all_tainted(spec: LLMServiceSpec, labelled: Iterable[NodeGpus]) -> Refusal:
    taints = {str(taint): None for node in labelled if (taint := untolerated(node, spec))}
    return Refusal(
        "UntoleratedTaint",
        f"each GPU node that may be taken has a taint that the pods do not bear: {_some(taints)}",
        "add it to spec.scheduling.tolerations, or take it off a node",
    )


def _named(nodes: Iterable[NodeGpus]) -> str:
    return _some(dict.fromkeys(node.node for node in nodes))


def _some(words: Iterable[str]) -> str:
    """A few of the words: a cluster may have a thousand nodes."""
    every = tuple(words)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return ", ".join(every[:NAMED_MAX]) + more


def _able(found: tuple[Card, ...], requested: Requested, facts: ModelFacts) -> tuple[Card, ...] | Refusal:
    """The cards that can run the method in its number format; the first one's refusal where none can."""
    verdicts = [(card, settle(requested.serving, facts, card.sized, requested.engine)) for card in found]
    able = tuple(card for card, verdict in verdicts if not isinstance(verdict, Refusal))
    refusals = [verdict for _, verdict in verdicts if isinstance(verdict, Refusal)]
    return able or refusals[0]


def _have(found: tuple[Card, ...]) -> str:
    return ", ".join(f"{card.name} has {_dotted(card.capability or ())}" for card in found)


def _dotted(capability: tuple[int, ...]) -> str:
    return ".".join(map(str, capability))


def not_enough(found: tuple[Card, ...], requested: Requested, facts: ModelFacts) -> Refusal:
    """No node, and no number of equal nodes, has the asked cards."""
    layout = requested.layout
    largest = max(found, key=lambda card: (card.most_per_node, len(card.per_node)))
    have = f"the largest node ({largest.largest_node}) has {largest.most_per_node} × {largest.product or largest.name}"
    if largest.alone:
        have = f"a replica takes one {largest.name}: slices of a card exchange nothing with one another"
    if layout.nodes_min == 1:
        return Refusal(
            "NotEnoughGpus",
            f"{layout.gpu_count} GPUs are asked for a replica, and {have}{_of_that_kind(largest, layout.nodes_max)}",
            f"set spec.resources.gpus to {largest.most_per_node} or less{_or_over_nodes(found, requested, facts)}, "
            f"or add a larger node{_or_spread(requested)}",
        )
    count = f"{layout.gpu_count} GPUs on {layout.nodes_min} nodes" if layout.gpu_count else f"{layout.nodes_min} nodes"
    there = ", ".join(f"{_nodes(card)} with up to {card.most_per_node} × {card.name}" for card in found)
    return Refusal(
        "NotEnoughGpus",
        f"{count} of one kind of GPU are asked for a replica, and there are: {there}",
        "add nodes of the same GPU, lower spec.deployment.nodes or spec.resources.gpus, or set spec.deployment.mode "
        "to Auto",
    )


def _or_over_nodes(found: tuple[Card, ...], requested: Requested, facts: ModelFacts) -> str:
    """The most GPUs below the asked number that the model can be spread over; nothing where that is not left open."""
    layout = requested.layout
    if layout.nodes_max == 1 or layout.tp or layout.pp:
        return ""
    ways = [
        split
        for card in found
        if not card.alone
        for split in group_splits(facts, card.most_per_node, min(layout.nodes_max, len(card.per_node)))
        if split.nodes <= card.nodes_with(split.gpus_per_node) and split.gpus < (layout.gpu_count or 0)
    ]
    most = max(ways, key=lambda split: (split.gpus, -split.nodes), default=None)
    return f", or to {most.gpus} over {most.nodes} nodes" if most and most.gpus > found[0].most_per_node else ""


def _nodes(card: Card) -> str:
    return f"{len(card.per_node)} node{'s' if len(card.per_node) > 1 else ''}"


def _of_that_kind(card: Card, nodes_max: int) -> str:
    several = nodes_max > 1 and len(card.per_node) > 1
    return f"; {_nodes(card)} have that GPU, {sum(card.per_node)} in all" if several else ""


def _or_spread(requested: Requested) -> str:
    return "" if requested.layout.nodes_max > 1 else ", or leave spec.deployment out to spread it over nodes"


def does_not_fit(facts: ModelFacts, every: list[Option]) -> Refusal:
    """The model is larger than the largest placement."""
    best = max(every, key=lambda option: option.cost)
    remedies = advice.advise(facts, best.serving, best.card)
    figures = "; ".join(words.figures(facts, best.need, best.serving))
    if best.fits:
        overrule = f"set spec.resources.gpus to {best.gpus} to overrule it"
        figures = f"{words.rule_of_thumb(best.seed_gib)}; {overrule}; {figures}"
    return Refusal(
        "DoesNotFit",
        f"the model does not fit the largest placement, {best.sentence()}: {figures}",
        "in this order: " + "; ".join(remedies),
    )
