"""The cluster's GPUs: which nodes have how many of which kind, and how many are free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from windlass_operator.cluster.quantity import whole
from windlass_operator.plan.model import GPU_PRODUCT_LABEL, GPU_RESOURCE, Inventory, NodeGpus
from windlass_operator.status.children import condition_of, dig, name_of

if TYPE_CHECKING:
    from windlass_operator.cluster.client import Cluster, Manifest

GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"  # MiB of one card
GPU_COUNT_LABEL = "nvidia.com/gpu.count"  # cards that are there; where cards are shared, more are handed out
MIB_A_GIB = 1024
CARDS_MAX = 256  # of a node; more is a lie, and every count of cards is tried


async def read_inventory(
    cluster: Cluster, watched: tuple[str, ...], namespace: str, name: str, *, own_is_free: bool = True
) -> Inventory:
    """GPUs as the service `namespace/name` sees them: what its own pods hold counts as free for it, or not."""
    nodes = await cluster.gpu_nodes()
    if not nodes:
        return Inventory()
    return inventory(nodes, await cluster.gpus_taken(watched, (namespace, name) if own_is_free else None))


def usable(nodes: Iterable[Manifest]) -> tuple[NodeGpus, ...]:
    """Pure: nodes with GPUs that take new pods, by name, as if no pod was there."""
    return tuple(_node(node) for node in sorted(nodes, key=name_of) if _gpus(node) and _takes_pods(node))


def inventory(nodes: Iterable[NodeGpus], taken: Mapping[str, int]) -> Inventory:
    """Pure: the nodes, less the GPUs that pods hold, by node."""
    return Inventory(tuple(_left(node, taken.get(node.node, 0)) for node in nodes))


def gpu_signature(node: Manifest) -> tuple[object, ...]:
    """What of a node can change a plan; heartbeats leave it as it is."""
    labels = dig(node, "metadata", "labels") or {}
    return (_gpus(node), _takes_pods(node), *sorted(labels.items()))


def _left(node: NodeGpus, taken: int) -> NodeGpus:
    if not taken:
        return node
    free = max(0, node.free - taken)
    return NodeGpus(node.node, node.product, node.memory_gib, node.allocatable, free, node.labels)


def _node(node: Manifest) -> NodeGpus:
    labels = {str(key): str(value) for key, value in (dig(node, "metadata", "labels") or {}).items()}
    memory, count = labels.get(GPU_MEMORY_LABEL, ""), labels.get(GPU_COUNT_LABEL, "")
    cards = int(count) if count.isdecimal() and int(count) else _gpus(node)
    return NodeGpus(
        node=name_of(node),
        product=labels.get(GPU_PRODUCT_LABEL, ""),
        memory_gib=int(memory) / MIB_A_GIB if memory.isdecimal() else None,
        allocatable=min(cards, _gpus(node)),  # ranks on one card twice would wait for each other
        free=_gpus(node),
        labels=labels,
    )


def _gpus(node: Manifest) -> int:
    return min(whole(dig(node, "status", "allocatable", GPU_RESOURCE)), CARDS_MAX)


def _takes_pods(node: Manifest) -> bool:
    ready = condition_of(node, "Ready")
    return not dig(node, "spec", "unschedulable") and ready is not None and ready.get("status") == "True"
