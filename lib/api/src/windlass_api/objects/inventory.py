"""The cluster's GPUs: which nodes have how many of which kind, and how many are free. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from windlass_api.objects.quantity import whole
from windlass_api.objects.reading import Object
from windlass_api.objects.records import Node, node_of
from windlass_api.plan.model import GPU_RESOURCE, MIG_RESOURCE_PREFIX, Inventory, NodeGpus, Taint, product_label
from windlass_api.plan.quantity import gib

# Behind the name of a resource, in a node's labels:
MEMORY = "memory"  # MiB of one card or slice
COUNT = "count"  # cards that are there; where cards are shared, more are handed out
MIB_A_GIB = 1024
KEEPS_OFF = ("NoSchedule", "NoExecute")  # effects of taints; PreferNoSchedule only asks
PASSING = "node.kubernetes.io/"  # begins the taints of nodes that are not ready, cordoned or short of something
CARDS_MAX = 256  # of a node; more is a lie, and every count of cards is tried


def usable(nodes: Iterable[Object]) -> tuple[NodeGpus, ...]:
    """Nodes with GPUs that take new pods, by name, as if no pod was there."""
    return tuple(
        _node(node, resource)
        for node in sorted(map(node_of, nodes), key=lambda one: one.name)
        if node.takes_pods
        for resource in _resources(node)
        if _gpus(node, resource)
    )


def inventory(nodes: Iterable[NodeGpus], taken: Mapping[str, int]) -> Inventory:
    """The nodes, less the GPUs that pods hold, by node."""
    return Inventory(tuple(_left(node, taken.get(node.place, 0)) for node in nodes))


def gpu_signature(item: Object) -> tuple[object, ...]:
    """What of a node can change a plan; heartbeats leave it as it is."""
    node = node_of(item)
    handed_out = tuple((resource, _gpus(node, resource)) for resource in _resources(node))
    return (handed_out, _host_gib(node), node.takes_pods, _taints(node), *sorted(node.labels.items()))


def _left(node: NodeGpus, taken: int) -> NodeGpus:
    if not taken:
        return node
    return replace(node, free=max(0, node.free - taken))


def _resources(node: Node) -> list[str]:
    """The resources by which this node hands out GPUs: whole cards, and slices where it has several kinds."""
    return [GPU_RESOURCE, *sorted(name for name in node.allocatable if name.startswith(MIG_RESOURCE_PREFIX))]


def _node(node: Node, resource: str) -> NodeGpus:
    labels = node.labels
    memory, count = labels.get(f"{resource}.{MEMORY}", ""), labels.get(f"{resource}.{COUNT}", "")
    handed_out = _gpus(node, resource)
    cards = int(count) if count.isdecimal() and int(count) else handed_out
    return NodeGpus(
        node=node.name,
        product=labels.get(product_label(resource), ""),
        memory_gib=int(memory) / MIB_A_GIB if memory.isdecimal() else None,
        allocatable=min(cards, handed_out),  # ranks on one card twice would wait for each other
        free=handed_out,
        labels=labels,
        resource=resource,
        host_gib=_host_gib(node) / max(1, handed_out),
        node_gib=_host_gib(node),
        taints=_taints(node),
    )


def _taints(node: Node) -> tuple[Taint, ...]:
    """The taints that keep pods off; Kubernetes' own tell a passing state, as `takes_pods` does."""
    rows = ((str(row.get("key") or ""), str(row.get("value") or ""), row.get("effect")) for row in node.taints)
    return tuple(
        Taint(key, value, str(effect))
        for key, value, effect in rows
        if effect in KEEPS_OFF and not key.startswith(PASSING)
    )


def _gpus(node: Node, resource: str) -> int:
    return min(whole(node.allocatable.get(resource)), CARDS_MAX)


def _host_gib(node: Node) -> float:
    """The host memory that pods may ask for; 0 where the node says nothing that can be read."""
    with suppress(ValueError):
        return gib(str(node.allocatable.get("memory") or 0))
    return 0.0
