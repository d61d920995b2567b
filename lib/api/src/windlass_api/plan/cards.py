"""The cluster's GPUs as kinds of card: what a plan chooses between.

Nodes of one product are one kind. A plan reads what nodes hand out at all, never what is free at the moment, so that it
does not change while pods come and go. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass_sizing.placement import gpus
from windlass_sizing.quantization import question

from windlass_api.plan.model import GPU_RESOURCE, RESOURCE_GROUP_LABEL, Inventory, NodeGpus

HOST_TO_SPARE = 2  # times the card's own memory: pods on all cards then ask for about half of the node's


@dataclass(frozen=True, slots=True)
class Card:
    """One kind of GPU in this cluster."""

    product: str  # the node label, for the node selector
    name: str  # the short name, for people
    real_gib: float | None  # as the driver reports it; None when neither label nor table know
    nominal_gib: float | None  # as the rule of thumb takes it
    capability: tuple[int, int] | None
    most_per_node: int  # that one replica can use
    largest_node: str
    per_node: tuple[int, ...] = ()  # cards of each node that has this kind
    resource: str = GPU_RESOURCE
    alone: bool = False  # a slice: a replica takes one, as slices exchange nothing with one another
    host_gib: float = 0.0  # the least host memory that a node has for each of these cards
    node_gib: float = 0.0  # the most host memory that a node of them has; 0 where one does not say

    @property
    def sized(self) -> question.Card:
        """The card as the decision on a method takes it."""
        return question.Card(self.name, self.capability)

    @property
    def has_host_memory(self) -> bool:
        """Whether every node has host memory to spare for each of its cards; slices of a card share what it has."""
        return not self.alone and self.real_gib is not None and self.host_gib >= self.real_gib * HOST_TO_SPARE

    def nodes_with(self, cards_each: int) -> int:
        """How many nodes have at least so many of these cards."""
        return sum(cards >= cards_each for cards in self.per_node)


def cards(nodes: Iterable[NodeGpus]) -> tuple[Card, ...]:
    """The kinds of card on these nodes, by product."""
    by_product: dict[tuple[str, str], list[NodeGpus]] = {}
    for node in nodes:
        if node.allocatable > 0:
            by_product.setdefault((node.product, node.resource), []).append(node)
    return tuple(_card(same) for _, same in sorted(by_product.items()))


def wanted_nodes(inventory: Inventory, gpu_type: str | None, group: str | None) -> tuple[NodeGpus, ...]:
    """The nodes of the asked type and resource group; both may be left out. `nodes.py` knows the other conditions."""
    return tuple(
        node
        for node in inventory.nodes
        if node.allocatable > 0
        and (gpu_type is None or gpus.matches(gpu_type, node.known_as))
        and (group is None or node.labels.get(RESOURCE_GROUP_LABEL) == group)
    )


def group_selector(group: str | None) -> tuple[tuple[str, str], ...]:
    """The node label of a resource group; nothing without one."""
    return ((RESOURCE_GROUP_LABEL, group),) if group else ()


def largest_node(nodes: Iterable[NodeGpus]) -> NodeGpus:
    """The node with the most cards; the first by name when several have as many."""
    return min(nodes, key=lambda node: (-node.allocatable, node.node))


def _card(nodes: list[NodeGpus]) -> Card:
    largest = largest_node(nodes)
    product, known = largest.product, gpus.find(largest.known_as)
    labelled = [node.memory_gib for node in nodes if node.memory_gib]
    real = min(labelled) if labelled else (known.real_gib if known else None)
    alone = known is not None and known.alone
    return Card(
        product=product,
        name=known.name if known else product.removeprefix("NVIDIA-") or "GPU",
        real_gib=real,
        nominal_gib=float(known.memory_gib) if known else real,
        capability=known.capability if known else None,
        most_per_node=1 if alone else largest.allocatable,
        largest_node=largest.node,
        per_node=tuple(sorted((node.allocatable for node in nodes), reverse=True)),
        resource=largest.resource,
        alone=alone,
        host_gib=min(node.host_gib for node in nodes),
        node_gib=max(node.node_gib for node in nodes) if all(node.node_gib for node in nodes) else 0.0,
    )
