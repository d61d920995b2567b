"""The cluster as a reconcile sees it: reads of watched kinds come from the store, everything else goes to the API.

What a write of ours made of an object is in the store before the write returns, so the next read knows it although
the watch has not told it yet. The events up to that version are then no news any more. So an answer that holds a change
by another, whose event has not come yet, asks for a reconcile itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext

from windlass_api.objects.claims import Claims
from windlass_api.objects.inventory import usable
from windlass_api.plan.model import NodeGpus

from windlass_operator.cluster.apply import agrees, beside, must_be_ours
from windlass_operator.cluster.kinds import APPLIED, Kind
from windlass_operator.cluster.protocol import ALL_NAMESPACES, Cluster
from windlass_operator.cluster.store import Place, Row, Shelf, Store, place_of
from windlass_operator.errors import Retry
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.records.base import R


class StoredCluster:
    """A `Cluster` over the store and the real API server."""

    def __init__(
        self,
        api: Cluster,
        store: Store,
        claims: Claims,
        others: Callable[[str, Place, Row], None] = lambda *_: None,  # another has changed this, of this kind
    ) -> None:
        self._api = api
        self._store = store
        self._claims = claims
        self._others = others
        self._nodes: tuple[int, tuple[NodeGpus, ...]] = (-1, ())

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        shelf = self._store.shelves.get(kind.kind)
        return await self._api.get(kind, namespace, name) if shelf is None else shelf.get((namespace, name))

    async def find(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """The objects of a namespace that match."""
        shelf = self._store.shelves.get(kind.kind)
        if shelf is None or fields:
            return await self._api.find(kind, namespace, labels, fields)
        return shelf.find(None if namespace == ALL_NAMESPACES else namespace, labels or {})

    async def records(self, kind: Kind, shape: type[R], namespace: str, labels: Mapping[str, str]) -> list[R]:
        """The objects that match, as records: for kinds that no apply compares."""
        shelf = self._store.shelves.get(kind.kind)
        if shelf is None:
            return await self._api.records(kind, shape, namespace, labels)
        return shelf.records(shape, namespace, labels)

    async def gpu_nodes(self) -> tuple[NodeGpus, ...]:
        """Nodes with GPUs, read once for all plans until one changes: there may be a thousand."""
        shelf = self._store.shelves["Node"]
        if self._nodes[0] != shelf.changes:
            self._nodes = (shelf.changes, usable(shelf.find(None, {})))
        return self._nodes[1]

    async def gpus_taken(self, namespaces: tuple[str, ...], besides: tuple[str, str] | None) -> Mapping[str, int]:
        """GPUs that pods hold, by node."""
        return self._claims.taken(besides)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply."""
        with self._writing(manifest):
            return self._kept(manifest, await self._api.apply(manifest))

    async def create(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of what nothing is known of; None when there is one, and it is of no watched kind.

        The watches see what bears our label. An object of ours that lost it gets it back and is looked at anew before
        anything else is decided: it may hold the plan in force.
        """
        with self._writing(manifest):
            answer = await self._api.create(manifest)
            if answer is not None:
                return self._kept(manifest, answer)
        return None if self._shelf(manifest) is None else await self._labelled(manifest)

    async def _labelled(self, manifest: Manifest) -> Manifest:
        kind, meta = str(manifest["kind"]), manifest["metadata"]
        live = await self._api.get(APPLIED[kind], meta["namespace"], meta["name"])
        if live is None:  # gone again
            return await self.apply(manifest)
        must_be_ours(manifest, live)
        labels = {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}
        with self._writing(manifest):
            self._kept(manifest, await self._api.overwrite({**_head(manifest), "metadata": labels}))
        raise Retry(f"{kind} {meta['name']} was not seen by its labels; they are as they were again", 0.0)

    async def overwrite(self, manifest: Manifest) -> Manifest:
        """Merge patch."""
        return await self._api.overwrite(manifest)

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of our resource's status."""
        with self._writing(manifest):
            answer = await self._api.apply_status(manifest)
            return None if answer is None else self._kept(manifest, answer)

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object and what it owns."""
        await self._api.delete(kind, namespace, name)

    def _shelf(self, manifest: Manifest) -> Shelf | None:
        return self._store.shelves.get(str(manifest["kind"]))

    def _writing(self, manifest: Manifest) -> AbstractContextManager[None]:
        shelf = self._shelf(manifest)
        return nullcontext() if shelf is None else shelf.writing(place_of(manifest))

    def _kept(self, manifest: Manifest, answer: Manifest) -> Manifest:
        shelf = self._shelf(manifest)
        if shelf is not None:
            place = place_of(manifest)
            before, row = shelf.get(place), shelf.answer(answer)
            if before is not None and row is not None and _by_another(manifest, before, row.read()):
                self._others(str(manifest["kind"]), place, row)
        return answer


COUNTED = ("resourceVersion", "generation")  # by the API server, at each write
WHOLE = frozenset({"status"})  # parts that are ours alone where we write them: a field that we leave out goes


def _by_another(wrote: Manifest, before: Manifest, after: Manifest) -> bool:
    """Whether more than our write lies between two versions of an object."""
    spoken = wrote.keys() & WHOLE
    kept = [beside(_uncounted(one, spoken), wrote) for one in (before, after)]
    return kept[0] != kept[1] or not agrees(after, wrote)


def _uncounted(item: Manifest, spoken: Collection[str]) -> Manifest:
    meta = {key: value for key, value in item["metadata"].items() if key not in COUNTED}
    return {**{key: value for key, value in item.items() if key not in spoken}, "metadata": meta}


def _head(manifest: Manifest) -> Manifest:
    return {key: manifest[key] for key in ("apiVersion", "kind")}
