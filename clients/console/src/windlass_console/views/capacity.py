"""Nodes, their cards, who holds them, and which usual models would fit on what is free. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from typing_extensions import TypedDict
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.names import SERVICE_LABEL
from windlass_api.objects.claims import claim_of
from windlass_api.objects.inventory import usable
from windlass_api.objects.reading import Object, dig, name_of
from windlass_api.objects.records import listed, mapped, node_of
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Refusal
from windlass_api.plan.quantity import gib
from windlass_sizing.model.facts import ModelFacts, from_config

CONTEXT = 8192  # tokens, with which the usual models are tried


class Holder(TypedDict):
    """A pod that holds cards; `service` is empty for a pod of no LLMService."""

    namespace: str
    service: str
    pod: str
    gpus: int


class Cards(TypedDict):
    """What one resource of a node hands out."""

    resource: str
    product: str
    memoryGiB: float | None
    allocatable: int
    free: int
    holders: list[Holder]


class NodeView(TypedDict):
    """A node with cards; `why` says why no new pod comes to it."""

    name: str
    ready: bool
    schedulable: bool
    why: str
    cpu: str
    memoryGiB: float | None
    cards: list[Cards]


class Product(TypedDict):
    """All cards of one kind; `largestFree` is the most that are free on one node."""

    product: str
    resource: str
    memoryGiB: float | None
    allocatable: int
    free: int
    largestFree: int


class Fit(TypedDict):
    """Whether a usual model would fit on what is free now."""

    model: str
    params: str
    dtype: str
    context: int
    message: str
    fits: bool
    gpus: int | None
    gpuType: str | None


class Capacity(TypedDict):
    """The cards of the cluster."""

    nodes: list[NodeView]
    holdersKnown: bool
    products: list[Product]
    fits: list[Fit]


def capacity(nodes: Sequence[Object], pods: Iterable[Object] | None) -> Capacity:
    """The view; without the right to list all pods (`pods` None) every card counts as free."""
    held = _held(pods or ())
    views = [_node(one, held) for one in sorted(nodes, key=name_of)]
    with_cards = [view for view in views if view["cards"]]
    open_ = [view for view in with_cards if view["ready"] and view["schedulable"]]
    return Capacity(
        nodes=with_cards,
        holdersKnown=pods is not None,
        products=_products(open_),
        fits=fits(_free(usable(nodes), held)),
    )


def _held(pods: Iterable[Object]) -> dict[str, list[Holder]]:
    """Who holds cards, by place: see `plan.model.place_of`."""
    held: dict[str, list[Holder]] = {}
    for pod in pods:
        claim = claim_of(pod)
        for place, gpus in claim.gpus if claim else ():
            service = str(dig(pod, "metadata", "labels", SERVICE_LABEL) or "")
            row = Holder(
                namespace=str(dig(pod, "metadata", "namespace") or ""), service=service, pod=name_of(pod), gpus=gpus
            )
            held.setdefault(place, []).append(row)
    return held


def _node(item: Object, held: Mapping[str, list[Holder]]) -> NodeView:
    node = node_of(item)
    # A node that takes no pods still has its cards, and pods that hold them.
    taking = {**item, "spec": {**mapped(item.get("spec")), "unschedulable": False}, "status": _ready(item)}
    taints = [str(one.get("key")) for one in listed(dig(item, "spec", "taints"))]
    reasons = [
        *(["it is not ready"] if not node.ready else []),
        *(["it is cordoned"] if node.unschedulable else []),
        *([f"it has taints: {', '.join(taints)}"] if taints else []),
    ]
    return NodeView(
        name=node.name,
        ready=node.ready,
        schedulable=not node.unschedulable,
        why="; ".join(reasons),
        cpu=str(node.allocatable.get("cpu") or ""),
        memoryGiB=_gib(node.allocatable.get("memory")),
        cards=[_cards(one, held.get(one.place, [])) for one in usable([taking])],
    )


def _ready(item: Object) -> dict[str, Any]:
    return {**mapped(item.get("status")), "conditions": [{"type": "Ready", "status": "True"}]}


def _cards(gpus: NodeGpus, holders: list[Holder]) -> Cards:
    taken = sum(one["gpus"] for one in holders)
    return Cards(
        resource=gpus.resource,
        product=gpus.product,
        memoryGiB=round(gpus.memory_gib, 1) if gpus.memory_gib is not None else None,
        allocatable=gpus.allocatable,
        free=max(0, gpus.allocatable - taken),
        holders=sorted(holders, key=lambda one: (one["namespace"], one["pod"])),
    )


def _gib(quantity: object) -> float | None:
    try:
        return round(gib(str(quantity)), 1) if quantity else None
    except ValueError:
        return None


def _products(nodes: Iterable[NodeView]) -> list[Product]:
    found: dict[tuple[str, str], Product] = {}
    for cards in (one for node in nodes for one in node["cards"]):
        key = (cards["product"], cards["resource"])
        row = found.setdefault(
            key,
            Product(
                product=key[0], resource=key[1], memoryGiB=cards["memoryGiB"], allocatable=0, free=0, largestFree=0
            ),
        )
        row["allocatable"] += cards["allocatable"]
        row["free"] += cards["free"]
        row["largestFree"] = max(row["largestFree"], cards["free"])
    return [found[key] for key in sorted(found)]


def _free(nodes: Iterable[NodeGpus], held: Mapping[str, list[Holder]]) -> Inventory:
    """The nodes as if only what is free were there."""
    left = []
    for node in nodes:
        free = max(0, node.allocatable - sum(one["gpus"] for one in held.get(node.place, ())))
        if free:
            left.append(replace(node, allocatable=free, free=free))
    return Inventory(tuple(left))


@cache
def usual_models() -> tuple[tuple[str, ModelFacts], ...]:
    """Well-known decoders by their sizes: the names and the facts of their config.json."""
    text = resources.files("windlass_console.views").joinpath("usual_models.json").read_text(encoding="utf-8")
    return tuple((name, from_config(config)) for name, config in json.loads(text).items())


def fits(free: Inventory) -> list[Fit]:
    """The plan of each usual model on the free cards."""
    return [_fit(name, facts, free) for name, facts in usual_models()]


def _fit(name: str, facts: ModelFacts, free: Inventory) -> Fit:
    spec = LLMServiceSpec.model_validate(
        {"model": {"id": name, "source": {"pvc": {"claimName": "models"}}}, "engine": {"maxModelLen": CONTEXT}}
    )
    answer = decide(spec, facts, free)
    refused = isinstance(answer, Refusal)
    return Fit(
        model=name,
        params=facts.params_text,
        dtype="" if isinstance(answer, Refusal) else answer.dtype,
        context=CONTEXT,
        message=answer.message if isinstance(answer, Refusal) else "; ".join(answer.because),
        fits=not refused,
        gpus=None if isinstance(answer, Refusal) else answer.gpus,
        gpuType=None if isinstance(answer, Refusal) else answer.gpu_type,
    )
