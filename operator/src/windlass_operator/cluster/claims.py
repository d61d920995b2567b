"""Which pods of the cluster hold GPUs on which node: of everyone's pods only these few words are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.cluster.quantity import whole
from windlass_operator.cluster.store import EVERYWHERE
from windlass_operator.manifests.metadata import SERVICE_LABEL
from windlass_operator.plan.model import GPU_RESOURCE
from windlass_operator.status.children import Object, dig

ENDED = ("Succeeded", "Failed")
# The API server leaves out pods that have ended or have no node yet.
FIELDS = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Claim:
    """GPUs that one pod holds."""

    node: str
    gpus: int
    owner: tuple[str, str]  # namespace and LLMService; the latter empty for a pod of someone else


def claim_of(pod: Object) -> Claim | None:
    """What the pod holds; None when it holds nothing."""
    place = str(dig(pod, "spec", "nodeName") or "")
    gpus = sum(whole(dig(one, "resources", "limits", GPU_RESOURCE)) for one in dig(pod, "spec", "containers") or ())
    if not (place and gpus) or dig(pod, "status", "phase") in ENDED:
        return None
    meta = pod.get("metadata") or {}
    return Claim(place, gpus, (str(meta.get("namespace")), str((meta.get("labels") or {}).get(SERVICE_LABEL) or "")))


class Claims:
    """All claims, summed by node; fed by a watch of everyone's pods."""

    def __init__(self, freed: Callable[[], None] = lambda: None, scopes: Iterable[str] = ()) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        self._taken: dict[str, int] = {}
        self._own: dict[tuple[str, str], dict[str, int]] = {}
        self._freed = freed
        self._unlisted = set(scopes) or {EVERYWHERE}

    @property
    def synced(self) -> bool:
        """Whether every watch has had its first list."""
        return not self._unlisted

    def taken(self, besides: tuple[str, str] | None = None) -> Mapping[str, int]:
        """GPUs held by node; what the LLMService `besides` holds is left out."""
        own = self._own.get(besides, {}) if besides else {}
        return {node: gpus - own.get(node, 0) for node, gpus in self._taken.items()} if own else self._taken

    def put(self, item: Mapping[str, Any]) -> None:
        """A pod as it is now."""
        self._set(_place(item), claim_of(item))

    def drop(self, item: Mapping[str, Any]) -> None:
        """A pod that is gone or has ended."""
        self._set(_place(item), None)

    def keep(self, places: set[tuple[str, str]], version: int, scope: str = EVERYWHERE) -> None:
        """All pods of the scope but these are gone."""
        known = [place for place in self._claims if scope in (EVERYWHERE, place[0])]
        for place in known:
            if place not in places:
                self._set(place, None)
        self._unlisted.discard(scope)

    def passed(self, version: int, scope: str = EVERYWHERE) -> None:
        """Nothing to remember."""

    def _set(self, place: tuple[str, str], claim: Claim | None) -> None:
        old = self._claims.pop(place, None)
        if old == claim:
            if claim is not None:
                self._claims[place] = claim
            return
        if old is not None:
            self._add(old, -old.gpus)
        if claim is not None:
            self._claims[place] = claim
            self._add(claim, claim.gpus)
        if old is not None:
            self._freed()

    def _add(self, claim: Claim, gpus: int) -> None:
        _count(self._taken, claim.node, gpus)
        if claim.owner[1]:
            own = self._own.setdefault(claim.owner, {})
            _count(own, claim.node, gpus)
            if not own:
                del self._own[claim.owner]


def _count(table: dict[str, int], node: str, gpus: int) -> None:
    table[node] = table.get(node, 0) + gpus
    if not table[node]:
        del table[node]


def _place(item: Mapping[str, Any]) -> tuple[str, str]:
    return (str(item["metadata"].get("namespace")), str(item["metadata"]["name"]))
