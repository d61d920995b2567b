"""Lists whole collections and watches them: typed changes that survive cuts, expired versions, and a restarted server.

Nothing is lost over a gap: after an expired version (410) everything is listed again, and what differs from what was
last told is told as changes, deletions too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from windlass_api.objects.reading import dig
from windlass_base.kube.errors import ExpiredError, UnreachableError, UnreadableError, refusal
from windlass_base.kube.rest import Api
from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_client.values import LLMService, WatchEvent, service_of

PAGE = 500
PAGES_MAX = 200  # 100,000 objects
CONTINUE_MAX = 8192  # characters of a page's mark
PATIENCE_S = 60.0
PAUSE_FIRST_S, PAUSE_MAX_S = 0.5, 10.0
SERVER_ENDS_S = 240  # a watch is renewed this often …
SILENCE_S = 270.0  # … so that more silence than this is a dead connection
Changed = Literal["ADDED", "MODIFIED"]


@dataclass(frozen=True, slots=True)
class Collection:
    """What is listed or watched; `what` is how errors name it."""

    path: str
    what: str
    params: Mapping[str, str | int | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """All rows, and the version at which they were so."""

    rows: list[dict[str, Any]]
    version: str


async def listing(api: Api, what: Collection) -> Listing:
    """The whole collection, page by page; a list that expires between pages is read again in one."""
    try:
        return await _pages(api, what, PAGE)
    except ExpiredError:
        return await _pages(api, what, None)


async def _pages(api: Api, what: Collection, limit: int | None) -> Listing:
    rows: list[dict[str, Any]] = []
    more: str | None = None
    for _ in range(PAGES_MAX):
        answer = await api.call("GET", what.path, what.what, params={**what.params, "limit": limit, "continue": more})
        rows += _rows(answer, what.what)
        more = dig(answer, "metadata", "continue")
        if not more:
            return Listing(rows, str(dig(answer, "metadata", "resourceVersion") or ""))
        if not isinstance(more, str) or len(more) > CONTINUE_MAX:
            raise UnreadableError(f"{what.what}: the API server names no usable next page")
    raise UnreadableError(f"{what.what}: the API server lists them without end")


def _rows(answer: Mapping[str, Any], what: str) -> list[dict[str, Any]]:
    """The objects of a page; UnreadableError when they are none."""
    rows = answer.get("items") or []
    if isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("metadata", {}), dict) for row in rows
    ):
        return rows
    raise UnreadableError(f"{what}: the API server does not send a list of objects")


@dataclass(slots=True)
class _Delivered:
    """What the watcher's caller has been told so far, by namespace and name."""

    services: dict[tuple[str, str], LLMService] = field(default_factory=dict)

    def changes(self, rows: list[dict[str, Any]]) -> Iterator[WatchEvent]:
        """The difference between what was told and a fresh list."""
        fresh = {_key(one): one for one in map(service_of, rows)}
        for key in [key for key in self.services if key not in fresh]:
            yield WatchEvent("DELETED", self.services.pop(key))
        for one in fresh.values():
            yield from self.change("ADDED", one)

    def change(self, type_: str, one: LLMService) -> Iterator[WatchEvent]:
        """The event, unless it tells nothing new; ADDED and MODIFIED as the caller must see them."""
        known = self.services.get(_key(one))
        if type_ == "DELETED":
            if self.services.pop(_key(one), None) is not None:
                yield WatchEvent("DELETED", one)
        elif known is None or not _same(known, one):
            self.services[_key(one)] = one
            yield WatchEvent("ADDED" if known is None or known.metadata.uid != one.metadata.uid else "MODIFIED", one)


def _key(one: LLMService) -> tuple[str, str]:
    return (one.metadata.namespace, one.metadata.name)


def _same(known: LLMService, one: LLMService) -> bool:
    return (known.metadata.uid, known.metadata.resource_version) == (one.metadata.uid, one.metadata.resource_version)


def _nothing() -> None:
    return


async def watch(
    api: Api, what: Collection, patience_s: float, on_listed: Callable[[], None] = _nothing
) -> AsyncIterator[WatchEvent]:
    """Every change for ever; UnreachableError after `patience_s` seconds without an answer.

    `on_listed` is called whenever all that is there has been told.
    """
    told, version = _Delivered(), ""
    pause_s, silent_since = PAUSE_FIRST_S, time.monotonic()
    while True:
        try:
            if not version:
                found = await listing(api, what)
                for event in told.changes(found.rows):
                    yield event
                version = found.version
                on_listed()
            async for type_, raw in _stream(api, what, version):
                version = str(dig(raw, "metadata", "resourceVersion") or version)
                pause_s, silent_since = PAUSE_FIRST_S, time.monotonic()
                for event in told.change(type_, service_of(raw)) if type_ != "BOOKMARK" else ():
                    yield event
            silent_since = time.monotonic()  # the server ended it in order
        except ExpiredError:
            version, silent_since = "", time.monotonic()
        except UnreachableError:
            if time.monotonic() - silent_since > patience_s:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(PAUSE_MAX_S, 2 * pause_s)


async def _stream(api: Api, what: Collection, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The rows of one watch request; an ERROR row is raised as the refusal that it is."""
    params = {
        **what.params,
        "watch": True,
        "allowWatchBookmarks": True,
        "resourceVersion": version,
        "timeoutSeconds": SERVER_ENDS_S,
    }
    async with api.lines(what.path, what.what, params=params, silence_s=SILENCE_S) as lines:
        async for line in lines:
            if line.goes_on:
                raise UnreadableError(f"{what.what}: the API server sends a change that is too long")
            row = _row(line.text)
            if row is None:
                return  # cut in the middle of a line: the next request brings it again
            raw = row.get("object") or {}
            if not isinstance(raw, dict):
                raise UnreadableError(f"{what.what}: the API server sends a change of no object")
            if row.get("type") == "ERROR":
                raise refusal(_code(raw), raw, what.what)
            yield str(row.get("type")), raw


def _code(status: Mapping[str, Any]) -> int:
    code = status.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json_of(line)
    except UnusableJsonError:
        return None
    return row if isinstance(row, dict) else None
