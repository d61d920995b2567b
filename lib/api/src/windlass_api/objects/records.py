"""Nodes and pods as a count of GPUs sees them: read once, where they come in. Pure.

A field that is not of its kind reads as one that is not there: an API server may be anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_api.objects.reading import Object, dig, is_leaving, name_of


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what it hands out, and whether it takes new pods."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, Any]
    ready: bool
    unschedulable: bool
    kubelet: str
    taints: tuple[Mapping[str, Any], ...] = ()

    @property
    def takes_pods(self) -> bool:
        """Whether a new pod may come to it."""
        return self.ready and not self.unschedulable


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod and its limits, by resource."""

    name: str
    image: str
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: where it is, how far it is, and what its containers may take."""

    namespace: str
    name: str
    node: str
    phase: str
    leaving: bool
    labels: Mapping[str, str]
    containers: tuple[Container, ...]


def node_of(item: Object) -> Node:
    """The node in an object of the API server."""
    conditions = listed(dig(item, "status", "conditions"))
    return Node(
        name=name_of(item),
        labels={str(key): str(value) for key, value in mapped(dig(item, "metadata", "labels")).items()},
        allocatable=mapped(dig(item, "status", "allocatable")),
        ready=any((row.get("type"), row.get("status")) == ("Ready", "True") for row in conditions),
        unschedulable=bool(dig(item, "spec", "unschedulable")),
        kubelet=str(dig(item, "status", "nodeInfo", "kubeletVersion") or ""),
        taints=tuple(listed(dig(item, "spec", "taints"))),
    )


def pod_of(item: Object) -> Pod:
    """The pod in an object of the API server."""
    return Pod(
        namespace=str(dig(item, "metadata", "namespace") or ""),
        name=name_of(item),
        node=str(dig(item, "spec", "nodeName") or ""),
        phase=str(dig(item, "status", "phase") or ""),
        leaving=is_leaving(item),
        labels={str(key): str(value) for key, value in mapped(dig(item, "metadata", "labels")).items()},
        containers=tuple(_containers(item)),
    )


def mapped(value: object) -> Mapping[str, Any]:
    """The mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def listed(value: object) -> list[Mapping[str, Any]]:
    """The mappings of a list; none for anything else."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _containers(item: Object) -> Iterator[Container]:
    for one in listed(dig(item, "spec", "containers")):
        yield Container(str(one.get("name")), str(one.get("image") or ""), mapped(dig(one, "resources", "limits")))
