"""The cluster's GPUs: which nodes have how many of which kind, and how many are free. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from windlass_api.objects.quantity import whole
from windlass_api.objects.reading import Object, condition_of, dig, name_of
from windlass_api.plan.model import GPU_RESOURCE, MIG_RESOURCE_PREFIX, Inventory, NodeGpus, product_label
from windlass_api.plan.quantity import gib

# Behind the name of a resource, in a node's labels:
MEMORY = "memory"  # MiB of one card or slice
COUNT = "count"  # cards that are there; where cards are shared, more are handed out
MIB_A_GIB = 1024
CARDS_MAX = 256  # of a node; more is a lie, and every count of cards is tried


def usable(nodes: Iterable[Object]) -> tuple[NodeGpus, ...]:
    """Nodes with GPUs that take new pods, by name, as if no pod was there."""
    return tuple(
        _node(node, resource)
        for node in sorted(nodes, key=name_of)
        if _takes_pods(node)
        for resource in _resources(node)
        if _gpus(node, resource)
    )


def inventory(nodes: Iterable[NodeGpus], taken: Mapping[str, int]) -> Inventory:
    """The nodes, less the GPUs that pods hold, by node."""
    return Inventory(tuple(_left(node, taken.get(node.place, 0)) for node in nodes))


def gpu_signature(node: Object) -> tuple[object, ...]:
    """What of a node can change a plan; heartbeats leave it as it is."""
    labels = dig(node, "metadata", "labels") or {}
    handed_out = tuple((resource, _gpus(node, resource)) for resource in _resources(node))
    return (handed_out, _host_gib(node), _takes_pods(node), *sorted(labels.items()))


def _left(node: NodeGpus, taken: int) -> NodeGpus:
    if not taken:
        return node
    return replace(node, free=max(0, node.free - taken))


def _resources(node: Object) -> list[str]:
    """The resources by which this node hands out GPUs: whole cards, and slices where it has several kinds."""
    slices = (name for name in dig(node, "status", "allocatable") or {} if name.startswith(MIG_RESOURCE_PREFIX))
    return [GPU_RESOURCE, *sorted(slices)]


def _node(node: Object, resource: str) -> NodeGpus:
    labels = {str(key): str(value) for key, value in (dig(node, "metadata", "labels") or {}).items()}
    memory, count = labels.get(f"{resource}.{MEMORY}", ""), labels.get(f"{resource}.{COUNT}", "")
    handed_out = _gpus(node, resource)
    cards = int(count) if count.isdecimal() and int(count) else handed_out
    return NodeGpus(
        node=name_of(node),
        product=labels.get(product_label(resource), ""),
        memory_gib=int(memory) / MIB_A_GIB if memory.isdecimal() else None,
        allocatable=min(cards, handed_out),  # ranks on one card twice would wait for each other
        free=handed_out,
        labels=labels,
        resource=resource,
        host_gib=_host_gib(node) / max(1, handed_out),
    )


def _gpus(node: Object, resource: str) -> int:
    return min(whole(dig(node, "status", "allocatable", resource)), CARDS_MAX)


def _host_gib(node: Object) -> float:
    """The host memory that pods may ask for; 0 where the node says nothing that can be read."""
    with suppress(ValueError):
        return gib(str(dig(node, "status", "allocatable", "memory") or 0))
    return 0.0


def _takes_pods(node: Object) -> bool:
    ready = condition_of(node, "Ready")
    return not dig(node, "spec", "unschedulable") and ready is not None and ready.get("status") == "True"
