"""What a user may do, asked of the API server: pages offer that, and the API server refuses the rest all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from windlass_api.crd.v1alpha1 import GROUP, PLURAL
from windlass_api.objects.reading import name_of
from windlass_base.kube.errors import ForbiddenError
from windlass_base.kube.rest import Api
from windlass_client import watching
from windlass_client.licenses import HOME
from windlass_client.rights import Right, is_allowed

NAMESPACES = watching.Collection("/api/v1/namespaces", "namespaces")
KEPT_S, NAMESPACES_KEPT_S = 15.0, 30.0
AT_A_TIME = 16
NAMESPACES_MAX = 500


SERVICES = Right("list", PLURAL, group=GROUP)
CREATE = Right("create", PLURAL, group=GROUP)
# What pages ask for by a word: every right of the row is needed.
TABLE: dict[str, tuple[Right, ...]] = {
    "list": (SERVICES,),
    "watch": (Right("watch", PLURAL, group=GROUP),),
    "create": (CREATE,),
    "edit": (Right("patch", PLURAL, group=GROUP),),
    "scale": (Right("patch", PLURAL, "scale", GROUP),),
    "delete": (Right("delete", PLURAL, group=GROUP),),
    "pods": (Right("list", "pods"),),
    "logs": (Right("list", "pods"), Right("get", "pods", "log")),
    "events": (Right("list", "events"),),
    "metrics": (Right("list", "pods"), Right("get", "pods", "proxy")),
    "chat": (Right("create", "services", "proxy"),),
    "plan": (Right("list", "nodes", namespace=""),),
    "bench": (Right("create", "jobs", group="batch"), Right("list", "pods")),
    "benchList": (Right("list", "jobs", group="batch"),),
    "nodes": (Right("list", "nodes", namespace=""),),
    "podsEverywhere": (Right("list", "pods", namespace=""),),
    "claims": (Right("list", "persistentvolumeclaims"),),
    "licenses": (
        Right("list", "deployments", group="apps", namespace=HOME),
        Right("get", "services", "proxy", namespace=HOME),
    ),
    "licenseUpload": (Right("create", "services", "proxy", namespace=HOME),),
}


@dataclass(frozen=True, slots=True)
class Visible:
    """Namespaces whose services the user may list, and in which of them create."""

    names: tuple[str, ...]
    creates_in: frozenset[str]
    everywhere: bool  # the user may list the services of all namespaces at once
    complete: bool  # the names are all there are


class Rights:
    """The answers for one user; each is kept for some seconds."""

    def __init__(self, api: Api, own_namespace: str, offered: Sequence[str]) -> None:
        self._api, self._own, self._offered = api, own_namespace, tuple(offered)
        self._kept: dict[str, tuple[float, dict[str, bool]]] = {}
        self._visible: tuple[float, Visible] | None = None
        self._turn = asyncio.Semaphore(AT_A_TIME)

    def forget(self) -> None:
        """Ask anew: somebody signs in, perhaps because they were given a right."""
        self._kept, self._visible = {}, None

    async def table(self, namespace: str) -> dict[str, bool]:
        """Whether each word of TABLE is allowed in the namespace."""
        now = time.monotonic()
        self._kept = {place: row for place, row in self._kept.items() if now - row[0] < KEPT_S}
        if namespace not in self._kept:
            single = sorted({right for row in TABLE.values() for right in row}, key=repr)
            allowed = dict(
                zip(single, await asyncio.gather(*(self.may(one, namespace) for one in single)), strict=True)
            )
            self._kept[namespace] = (now, {word: all(allowed[one] for one in row) for word, row in TABLE.items()})
        return self._kept[namespace][1]

    async def may(self, right: Right, namespace: str) -> bool:
        """Whether the user has one right; namespace "" means all of them."""
        async with self._turn:
            return await is_allowed(self._api, right, namespace)

    async def visible(self) -> Visible:
        """The namespaces that pages offer."""
        now = time.monotonic()
        if self._visible is None or now - self._visible[0] > NAMESPACES_KEPT_S:
            self._visible = (now, await self._find())
        return self._visible[1]

    async def _find(self) -> Visible:
        try:
            names = [name_of(row) for row in (await watching.listing(self._api, NAMESPACES)).rows]
            complete = len(names) <= NAMESPACES_MAX
        except ForbiddenError:
            names, complete = sorted({*self._offered, self._own}), False
        names = names[:NAMESPACES_MAX]
        everywhere, creates = await asyncio.gather(self.may(SERVICES, ""), self.may(CREATE, ""))
        if not everywhere:
            names = await self._allowed(SERVICES, names)
        creates_in = names if creates else await self._allowed(CREATE, names)
        return Visible(tuple(names), frozenset(creates_in), everywhere, complete)

    async def _allowed(self, right: Right, names: Sequence[str]) -> list[str]:
        answers = await asyncio.gather(*(self.may(right, name) for name in names))
        return [name for name, allowed in zip(names, answers, strict=True) if allowed]
