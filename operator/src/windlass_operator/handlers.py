"""The watches: every event of a watched kind becomes a key in the queue, nothing more.

`WATCHES` is the table of what is followed. A row's objects lead to LLMServices by our label or by their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from windlass_operator import metrics
from windlass_operator.cluster.claims import FIELDS, Claims
from windlass_operator.cluster.inventory import gpu_signature
from windlass_operator.cluster.kinds import (
    Budgets,
    Deployments,
    HTTPRoutes,
    Ingresses,
    Jobs,
    LLMServices,
    NetworkPolicies,
    Nodes,
    Pods,
    ReplicaSets,
    Services,
    StatefulSets,
)
from windlass_operator.cluster.rest import Rest, resource_of
from windlass_operator.cluster.store import EVERYWHERE, Place, Row, Shelf, Store, version_of
from windlass_operator.cluster.watch import Sink, Watch, Watched
from windlass_operator.look import Key
from windlass_operator.manifests.metadata import MANAGED_BY_LABEL, MANAGER
from windlass_operator.queue import WorkQueue
from windlass_operator.status import conditions as c
from windlass_operator.status.children import controller_uid, dig, uid_of

OURS = f"{MANAGED_BY_LABEL}={MANAGER}"
SERVICE, NODE = resource_of(LLMServices).kind, resource_of(Nodes).kind
MAKER = resource_of(ReplicaSets).kind
WATCHES = (
    Watched(LLMServices),
    Watched(Nodes),
    Watched(Deployments, OURS),
    Watched(ReplicaSets, OURS, metadata_only=True),
    Watched(StatefulSets, OURS),
    Watched(Services, OURS),
    Watched(Jobs, OURS),
    Watched(Pods, OURS),
    Watched(Budgets, OURS),
    Watched(Ingresses, OURS),
    Watched(NetworkPolicies, OURS),
    Watched(HTTPRoutes, OURS, optional=True),
)
GPU_PODS = Watched(Pods, fields=FIELDS, purpose="GPUs")  # everyone's, for what they hold of the nodes' GPUs


@dataclass
class Census:
    """How many LLMServices give which reason for Ready."""

    reasons: dict[Place, str] = field(default_factory=dict)

    def see(self, place: Place, reason: str | None) -> None:
        """Count the service under this reason; None when it is gone."""
        old = self.reasons.pop(place, None)
        if reason is not None:
            self.reasons[place] = reason
        if old == reason:
            return
        if old is not None:
            metrics.LLMSERVICES.labels(old).dec()
        if reason is not None:
            metrics.LLMSERVICES.labels(reason).inc()


@dataclass
class Router:
    """Leads what changed to the keys that it concerns."""

    store: Store
    queue: WorkQueue[Key]
    waiting: Callable[[], set[Key]]  # keys that wait for GPUs
    census: Census = field(default_factory=Census)

    def changed(self, kind: str, place: Place, row: Row) -> None:
        """Something happened to this object, or it is gone."""
        if kind == SERVICE:
            self.queue.event(Key(*place))
            return
        for name in self.store.service_names(kind, place[0], row):
            self.queue.event(Key(place[0], name))

    def gpus_changed(self) -> None:
        """A node came, changed or went, or GPUs were let go."""
        for key in sorted(self.waiting()):
            self.queue.event(key)


@dataclass
class ShelfSink:
    """Puts what a watch sees on its kind's shelf and tells the router what is news."""

    kind: str
    router: Router
    scope: str = EVERYWHERE

    def put(self, item: Mapping[str, Any]) -> None:
        """It is there, or has changed."""
        if self.kind == SERVICE:
            self._count(item)
        if row := self._shelf.put(item):
            self.router.changed(self.kind, _place(item), row)

    def drop(self, item: Mapping[str, Any]) -> None:
        """It is gone."""
        if row := self._shelf.drop(item):
            self._gone(_place(item), row)

    def keep(self, places: set[Place], version: int) -> None:
        """All but these are gone."""
        for place, row in self._shelf.keep(places, version, self.scope):
            self._gone(place, row)

    def passed(self, version: int) -> None:
        """Nothing happened up to this version."""
        self._shelf.passed(version, self.scope)

    def _gone(self, place: Place, row: Row) -> None:
        if self.kind == SERVICE:
            self.router.census.see(place, None)
        self.router.changed(self.kind, place, row)

    def _count(self, item: Mapping[str, Any]) -> None:
        ready = c.find(dig(item, "status", "conditions") or (), c.READY) or {}
        self.router.census.see(_place(item), str(ready.get("reason") or "New"))

    @property
    def _shelf(self) -> Shelf:
        return self.router.store.shelves[self.kind]


@dataclass
class MakerSink(ShelfSink):
    """ReplicaSets, of which only the owner counts: how many pods they have is no news."""

    def put(self, item: Mapping[str, Any]) -> None:
        """It is there, or has changed."""
        place, meta = _place(item), item["metadata"]
        old = self._shelf.get(place)
        kept = {**item, "metadata": {key: meta[key] for key in MAKER_META if key in meta}}
        row = self._shelf.put(kept)
        if row and (old is None or _owner(old) != _owner(kept)):
            self.router.changed(self.kind, place, row)


MAKER_META = ("name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences")


def _owner(item: Mapping[str, Any]) -> tuple[str, str | None]:
    return uid_of(item), controller_uid(item)


@dataclass
class NodeSink(ShelfSink):
    """Nodes, pruned to what planning reads; a heartbeat is no news, and of a thousand nodes there are some a second."""

    _seen: dict[str, object] = field(default_factory=dict)

    def put(self, item: Mapping[str, Any]) -> None:
        """It is there, or has changed."""
        meta = item["metadata"]
        name, signature = str(meta["name"]), gpu_signature(dict(item))
        if self._seen.get(name) == signature:
            self._shelf.passed(version_of(meta.get("resourceVersion")))
            return
        self._shelf.put(_pruned(item))
        self._seen[name] = signature
        self.router.gpus_changed()

    def _gone(self, place: Place, row: Row) -> None:
        self._seen.pop(place[1], None)
        self.router.gpus_changed()


def _pruned(node: Mapping[str, Any]) -> dict[str, Any]:
    meta, status = node["metadata"], node.get("status") or {}
    return {
        "metadata": {key: meta.get(key) for key in ("name", "labels", "resourceVersion")},
        "spec": {"unschedulable": (node.get("spec") or {}).get("unschedulable")},
        "status": {key: status.get(key) for key in ("allocatable", "conditions")},
    }


@dataclass
class ClaimsSink:
    """Gives the claims what the watch of one scope sees."""

    claims: Claims
    scope: str

    def put(self, item: Mapping[str, Any]) -> None:
        """It is there, or has changed."""
        self.claims.put(item)

    def drop(self, item: Mapping[str, Any]) -> None:
        """It is gone."""
        self.claims.drop(item)

    def keep(self, places: set[Place], version: int) -> None:
        """All but these are gone."""
        self.claims.keep(places, version, self.scope)

    def passed(self, version: int) -> None:
        """Nothing happened up to this version."""


def scopes(namespaces: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The scopes of each watched kind: one for each namespace, or one for all; nodes have no namespace."""
    return {row.name: () if row.name == NODE else namespaces for row in WATCHES}


SINKS: Mapping[str, type[ShelfSink]] = {NODE: NodeSink, MAKER: MakerSink}


def watches(rest: Rest, namespaces: tuple[str, ...], router: Router, claims: Claims) -> list[Watch]:
    """A watch for each row and scope, feeding the store, and those that count GPUs."""
    found: list[Watch] = []
    for row in WATCHES:
        for scope in scopes(namespaces)[row.name] or (EVERYWHERE,):
            sink = SINKS.get(row.name, ShelfSink)(row.name, router, scope)
            found.append(_watch(rest, row, scope, sink))
    return [
        *found,
        *(_watch(rest, GPU_PODS, scope, ClaimsSink(claims, scope)) for scope in namespaces or (EVERYWHERE,)),
    ]


def _watch(rest: Rest, row: Watched, scope: str, sink: Sink) -> Watch:
    """The label of a watch, which logs and metrics have, names its namespace."""
    named = replace(row, purpose=", ".join(filter(None, (row.purpose, scope))))
    return Watch(rest, named, scope or None, sink)


def _place(item: Mapping[str, Any]) -> Place:
    return (str(item["metadata"].get("namespace") or ""), str(item["metadata"]["name"]))
