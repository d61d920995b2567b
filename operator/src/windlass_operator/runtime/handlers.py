"""kopf's handlers: every event of a watched kind that concerns a key becomes that key in the queue, nothing more.

`WATCHES` is the table of what is followed. A row's objects lead to LLMServices by our label or by their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import kopf
from windlass_api.names import MANAGED_BY_LABEL, MANAGER
from windlass_api.objects.claims import EVERYWHERE, Claims
from windlass_api.objects.inventory import gpu_signature
from windlass_api.objects.reading import controller_uid, uid_of

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
from windlass_operator.cluster.store import Place, Row, Shelf, Store, place_of
from windlass_operator.cluster.streams import KEYS, Keys, Stream, Watched
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.runtime.census import Census
from windlass_operator.runtime.queue import WorkQueue

OURS = f"{MANAGED_BY_LABEL}={MANAGER}"
SERVICE, NODE, POD, MAKER = LLMServices.kind, Nodes.kind, Pods.kind, ReplicaSets.kind
WATCHES = (
    Watched(LLMServices),
    Watched(Nodes),
    Watched(Deployments, OURS),
    Watched(ReplicaSets, OURS, metadata_only=True),
    Watched(StatefulSets, OURS),
    Watched(Services, OURS),
    Watched(Jobs, OURS),
    Watched(Pods),  # everyone's, for what they hold of the nodes' GPUs; only ours are kept
    Watched(Budgets, OURS),
    Watched(Ingresses, OURS),
    Watched(NetworkPolicies, OURS),
    Watched(HTTPRoutes, OURS, optional=True),
)


@dataclass
class Router:
    """Leads what changed to the keys that it concerns."""

    store: Store
    queue: WorkQueue[Key]
    waiting: Callable[[], set[Key]]  # keys that wait for GPUs
    census: Census = field(init=False)
    claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        self.census = Census(lambda: self.queue.working)
        self.claims = Claims(freed=lambda: self.ask(self.gpus_changed()))

    def changed(self, kind: str, place: Place, row: Row) -> Keys:
        """The keys that a change of this object concerns, or its end, and that nobody has asked for."""
        names = {place[1]} if kind == SERVICE else self.store.service_names(kind, place[0], row)
        return self._unasked(Key(place[0], name) for name in names)

    def gpus_changed(self) -> Keys:
        """A node came, changed or went, or GPUs were let go."""
        return self._unasked(self.waiting())

    def _unasked(self, keys: Iterable[Key]) -> Keys:
        """Those of the keys for which an event still changes something; of the others a run is about to begin."""
        return [(key.namespace, key.name) for key in sorted(keys) if not self.queue.asked(key)]

    def ask(self, keys: Keys) -> None:
        """Ask for a reconcile of each."""
        for key in keys:
            self.queue.event(Key(*key))

    def written(self, kind: str, place: Place, row: Row) -> None:
        """The answer to a write of ours holds what another wrote."""
        self.ask(self.changed(kind, place, row))


@dataclass
class ShelfSink:
    """Puts what a stream brings on its kind's shelf and returns the keys for which it is news."""

    kind: str
    router: Router
    scope: str = EVERYWHERE

    def put(self, item: Mapping[str, Any]) -> Keys:
        """It is there, or has changed."""
        if self.kind == SERVICE:
            self.router.census.see(place_of(item), item)
        row = self._shelf.put(item)
        return self.router.changed(self.kind, place_of(item), row) if row else ()

    def drop(self, item: Mapping[str, Any]) -> Keys:
        """It is gone."""
        row = self._shelf.drop(item)
        return self._gone(place_of(item), row) if row else ()

    def keep(self, places: set[Place], version: int) -> None:
        """All but these are gone; kopf hears of none of them, so the queue is asked here."""
        for place, row in self._shelf.keep(places, version, self.scope):
            self.router.ask(self._gone(place, row))

    def _gone(self, place: Place, row: Row) -> Keys:
        if self.kind == SERVICE:
            self.router.census.forget(place)
        return self.router.changed(self.kind, place, row)

    @property
    def _shelf(self) -> Shelf:
        return self.router.store.shelves[self.kind]


@dataclass
class MakerSink(ShelfSink):
    """ReplicaSets, of which only the owner counts: how many pods they have is no news."""

    def put(self, item: Mapping[str, Any]) -> Keys:
        """It is there, or has changed."""
        place, meta = place_of(item), item["metadata"]
        old = self._shelf.get(place)
        kept = {**item, "metadata": {key: meta[key] for key in MAKER_META if key in meta}}
        row = self._shelf.put(kept)
        news = row is not None and (old is None or _owner(old) != _owner(kept))
        return self.router.changed(self.kind, place, row) if row and news else ()


MAKER_META = ("name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences")


def _owner(item: Mapping[str, Any]) -> tuple[str, str | None]:
    return uid_of(item), controller_uid(item)


@dataclass
class NodeSink(ShelfSink):
    """Nodes, pruned to what planning reads; a heartbeat is no news, and of a thousand nodes there are some a second."""

    _seen: dict[str, object] = field(default_factory=dict)

    def put(self, item: Mapping[str, Any]) -> Keys:
        """It is there, or has changed."""
        meta = item["metadata"]
        name, signature = str(meta["name"]), gpu_signature(dict(item))
        if self._seen.get(name) == signature:
            return ()
        self._shelf.put(_pruned(item))
        self._seen[name] = signature
        return self.router.gpus_changed()

    def _gone(self, place: Place, row: Row) -> Keys:
        self._seen.pop(place[1], None)
        return self.router.gpus_changed()


def _pruned(node: Mapping[str, Any]) -> dict[str, Any]:
    meta, status = node["metadata"], node.get("status") or {}
    return {
        "metadata": {key: meta.get(key) for key in ("name", "labels", "resourceVersion")},
        "spec": {key: (node.get("spec") or {}).get(key) for key in ("unschedulable", "taints")},
        "status": {key: status.get(key) for key in ("allocatable", "conditions")},
    }


@dataclass
class PodSink(ShelfSink):
    """Pods: of everyone's what they hold of GPUs, ours whole."""

    def put(self, item: Mapping[str, Any]) -> Keys:
        """It is there, or has changed."""
        self.router.claims.put(item)
        ours = (item["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER
        return (super().put if ours else super().drop)(item)

    def drop(self, item: Mapping[str, Any]) -> Keys:
        """It is gone."""
        self.router.claims.drop(item)
        return super().drop(item)

    def keep(self, places: set[Place], version: int) -> None:
        """All but these are gone."""
        self.router.claims.keep(places, self.scope)
        super().keep(places, version)


SINKS: Mapping[str, type[ShelfSink]] = {NODE: NodeSink, MAKER: MakerSink, POD: PodSink}


def streams(namespaces: tuple[str, ...], router: Router) -> dict[str, Stream]:
    """The streams that kopf follows, by their path: one for each row and scope; nodes have no namespace."""
    found: dict[str, Stream] = {}
    for row in WATCHES:
        for scope in (EVERYWHERE,) if row.name == NODE else namespaces or (EVERYWHERE,):
            sink = SINKS.get(row.name, ShelfSink)(row.name, router, scope)
            found[row.kind.path(scope or None)] = Stream(replace(row, scope=scope), sink)
    return found


def register(registry: kopf.OperatorRegistry, router: Router) -> None:
    """One `on.event` for each kind: it asks for the keys that the wire found for the object."""

    async def seen(event: kopf.RawEvent, **_: object) -> None:
        router.ask(cast(Mapping[str, Any], event["object"])[KEYS])

    for row in WATCHES:
        kopf.on.event(*row.kind.names, id=row.name, registry=registry)(seen)
