"""Which pods of the cluster hold GPUs on which node: of everyone's pods only these few words are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_api.names import SERVICE_LABEL
from windlass_api.objects.quantity import whole
from windlass_api.objects.reading import Object, dig
from windlass_api.plan.model import GPU_RESOURCE, MIG_RESOURCE_PREFIX, place_of

EVERYWHERE = ""  # the scope of a stream that follows all namespaces
ENDED = ("Succeeded", "Failed")
# A one-off read of the claims: the API server leaves out pods that have ended or have no node yet.
FIELDS = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class Claim:
    """GPUs that one pod holds, by the place that they are of: see `place_of`."""

    gpus: tuple[tuple[str, int], ...]
    owner: tuple[str, str]  # namespace and LLMService; the latter empty for a pod of someone else


def claim_of(pod: Object) -> Claim | None:
    """What the pod holds; None when it holds nothing."""
    place = str(dig(pod, "spec", "nodeName") or "")
    if not place or dig(pod, "status", "phase") in ENDED:
        return None
    held = Counter[str]()
    for one in dig(pod, "spec", "containers") or ():
        for resource, said in (dig(one, "resources", "limits") or {}).items():
            if resource == GPU_RESOURCE or resource.startswith(MIG_RESOURCE_PREFIX):
                held[place_of(place, resource)] += whole(said)
    gpus = tuple((where, count) for where, count in sorted(held.items()) if count)
    if not gpus:
        return None
    meta = pod.get("metadata") or {}
    return Claim(gpus, (str(meta.get("namespace")), str((meta.get("labels") or {}).get(SERVICE_LABEL) or "")))


class Claims:
    """All claims, summed by node; fed by the stream of everyone's pods."""

    def __init__(self, freed: Callable[[], None] = lambda: None) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        self._taken: dict[str, int] = {}
        self._own: dict[tuple[str, str], dict[str, int]] = {}
        self._freed = freed

    def taken(self, besides: tuple[str, str] | None = None) -> Mapping[str, int]:
        """GPUs held by place, for whole cards the node; what the LLMService `besides` holds is left out."""
        own = self._own.get(besides, {}) if besides else {}
        return {place: gpus - own.get(place, 0) for place, gpus in self._taken.items()} if own else self._taken

    def put(self, item: Mapping[str, Any]) -> None:
        """A pod as it is now."""
        self._set(_place(item), claim_of(item))

    def drop(self, item: Mapping[str, Any]) -> None:
        """A pod that is gone or has ended."""
        self._set(_place(item), None)

    def keep(self, places: set[tuple[str, str]], scope: str = EVERYWHERE) -> None:
        """All pods of the scope but these are gone."""
        known = [place for place in self._claims if scope in (EVERYWHERE, place[0])]
        for place in known:
            if place not in places:
                self._set(place, None)

    def _set(self, place: tuple[str, str], claim: Claim | None) -> None:
        old = self._claims.pop(place, None)
        if old == claim:
            if claim is not None:
                self._claims[place] = claim
            return
        if old is not None:
            self._add(old, -1)
        if claim is not None:
            self._claims[place] = claim
            self._add(claim, 1)
        if old is not None:
            self._freed()

    def _add(self, claim: Claim, sign: int) -> None:
        own = self._own.setdefault(claim.owner, {}) if claim.owner[1] else None
        for place, gpus in claim.gpus:
            _count(self._taken, place, sign * gpus)
            if own is not None:
                _count(own, place, sign * gpus)
        if own is not None and not own:
            del self._own[claim.owner]


def _count(table: dict[str, int], place: str, gpus: int) -> None:
    table[place] = table.get(place, 0) + gpus
    if not table[place]:
        del table[place]


def _place(item: Mapping[str, Any]) -> tuple[str, str]:
    return (str(item["metadata"].get("namespace")), str(item["metadata"]["name"]))
