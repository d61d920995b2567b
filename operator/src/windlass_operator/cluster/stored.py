"""The cluster as a reconcile sees it: reads of watched kinds come from the store, everything else goes to the API.

What a write of ours made of an object is in the store before the write returns, so the next read knows it although
the watch has not told it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass_operator.api.v1alpha1 import KIND
from windlass_operator.cluster.apply import must_be_ours
from windlass_operator.cluster.claims import Claims
from windlass_operator.cluster.client import ALL_NAMESPACES, Cluster, Manifest
from windlass_operator.cluster.kinds import APPLIED, Deployments, Namespaced
from windlass_operator.cluster.rest import resource_of
from windlass_operator.cluster.store import Place, Row, Store

Changed = Callable[[str, Place, Row], None]
# Whether this is there decides what is planned: its absence is asked of the API server once, as the watch sees only
# objects that bear our labels, and labels can be edited away. The plan in force is read from the Deployment.
ASKED_ONCE = resource_of(Deployments).kind


class StoredCluster:
    """A `Cluster` over the store and the real API server."""

    def __init__(self, api: Cluster, store: Store, claims: Claims, changed: Changed) -> None:
        self._api = api
        self._store = store
        self._claims = claims
        self._changed = changed
        self._absent: set[Place] = set()  # Deployments that the API server has told us are not there

    async def get(self, kind: Namespaced, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        word, place = resource_of(kind).kind, (namespace, name)
        shelf = self._store.shelves.get(word)
        if shelf is None:
            return await self._api.get(kind, namespace, name)
        found = shelf.get(place)
        if found is None and word == KIND:
            self._absent.discard(place)  # the service is gone: keep nothing of it
        if found is not None or word != ASKED_ONCE:
            return found
        return await self._ask(kind, place)

    async def _ask(self, kind: Namespaced, place: Place) -> Manifest | None:
        if place in self._absent:
            return None
        found = await self._api.get(kind, *place)
        if found is None:
            self._absent.add(place)
        return found

    async def find(
        self,
        kind: Namespaced,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """The objects of a namespace that match."""
        shelf = self._store.shelves.get(resource_of(kind).kind)
        if shelf is None or fields:
            return await self._api.find(kind, namespace, labels, fields)
        return shelf.find(None if namespace == ALL_NAMESPACES else namespace, labels or {})

    async def list_nodes(self) -> list[Manifest]:
        """All nodes."""
        return self._store.shelves["Node"].find(None, {})

    async def gpus_taken(self, namespace: str | None, besides: tuple[str, str] | None) -> Mapping[str, int]:
        """GPUs that pods hold, by node."""
        return self._claims.taken(besides)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply; a first apply looks whether someone else has an object of that name."""
        kind, meta = str(manifest["kind"]), manifest["metadata"]
        place = (str(meta["namespace"]), str(meta["name"]))
        shelf = self._store.shelves.get(kind)
        if shelf is not None and place not in shelf.rows:
            live = await self._api.get(APPLIED[kind], *place)
            if live is not None:
                must_be_ours(manifest, live)
        answer = await self._api.apply(manifest)
        if kind == ASKED_ONCE:
            self._absent.discard(place)
        if shelf is not None and (row := shelf.answer(answer)):
            self._changed(kind, place, row)
        return answer

    async def overwrite(self, manifest: Manifest) -> None:
        """Merge patch."""
        await self._api.overwrite(manifest)

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of our resource's status."""
        answer = await self._api.apply_status(manifest)
        shelf = self._store.shelves.get(str(manifest["kind"]))
        if answer is not None and shelf is not None:
            shelf.answer(answer)
        return answer

    async def delete(self, kind: Namespaced, namespace: str, name: str) -> None:
        """Delete an object and what it owns."""
        await self._api.delete(kind, namespace, name)
