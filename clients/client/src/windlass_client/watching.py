"""Lists whole collections and watches them: typed changes that survive cuts, expired versions, and a restarted server.

Nothing is lost over a gap: after an expired version (410) everything is listed again, and what differs from what was
last told is told as changes, deletions too.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from windlass_api.objects.reading import dig
from windlass_base.kube.errors import ExpiredError, UnreachableError, UnreadableError, refusal
from windlass_base.kube.rest import Api
from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_client.values import LLMService, WatchEvent, service_of

PAGE = 500
WATCHED_PAGE = 100
"""Objects of a page that a watch reads: a caller may have many watches, and each holds a parsed page for a moment."""
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
    """All rows, or those of one page, and the version at which they were so."""

    rows: list[dict[str, Any]]
    version: str


async def listing(api: Api, what: Collection) -> Listing:
    """The whole collection, page by page; a list that expires between pages is read again in one."""
    try:
        return await _whole(api, what, PAGE)
    except ExpiredError:
        return await _whole(api, what, None)


async def _whole(api: Api, what: Collection, limit: int | None) -> Listing:
    found = [page async for page in _pages(api, what, limit)]
    return Listing([row for page in found for row in page.rows], found[-1].version)


async def _pages(api: Api, what: Collection, limit: int | None) -> AsyncGenerator[Listing]:
    """At least one page; the versions of all are the same."""
    more: str | None = None
    for _ in range(PAGES_MAX):
        answer = await api.call("GET", what.path, what.what, params={**what.params, "limit": limit, "continue": more})
        more = dig(answer, "metadata", "continue")
        yield Listing(_rows(answer, what.what), str(dig(answer, "metadata", "resourceVersion") or ""))
        if not more:
            return
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


Key = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class _Known:
    """A service that the caller was told of, for its deletion: compressed, 1 to 2 KiB where the model has 50."""

    uid: str
    version: str
    packed: bytes

    @classmethod
    def of(cls, one: LLMService) -> Self:
        meta, text = one.metadata, one.model_dump_json(by_alias=True, exclude_unset=True)
        return cls(meta.uid, meta.resource_version, zlib.compress(text.encode(), 1))

    def service(self) -> LLMService:
        return LLMService.model_validate_json(zlib.decompress(self.packed))


@dataclass(slots=True)
class _Delivered:
    """What the watcher's caller has been told so far."""

    services: dict[Key, _Known] = field(default_factory=dict)
    unseen: set[Key] = field(default_factory=set)
    """Those that no page of the list in progress has had."""
    version: str = ""
    """Of the last whole list."""

    def begin(self) -> None:
        """A fresh list comes, page by page."""
        self.unseen = set(self.services)

    def page(self, rows: list[dict[str, Any]]) -> Iterator[WatchEvent]:
        """What of a page was not told."""
        for row in rows:
            one = service_of(row)
            self.unseen.discard(_key(one))
            yield from self.change("ADDED", one)

    def end(self) -> Iterator[WatchEvent]:
        """The list is whole: what it had not is deleted."""
        for key in self.unseen:
            yield WatchEvent("DELETED", self.services.pop(key).service())

    def change(self, type_: str, one: LLMService) -> Iterator[WatchEvent]:
        """The event, unless it tells nothing new; ADDED and MODIFIED as the caller must see them."""
        known, meta = self.services.get(_key(one)), one.metadata
        if type_ == "DELETED":
            if self.services.pop(_key(one), None) is not None:
                yield WatchEvent("DELETED", one)
        elif known is None or (known.uid, known.version) != (meta.uid, meta.resource_version):
            self.services[_key(one)] = _Known.of(one)
            yield WatchEvent("ADDED" if known is None or known.uid != meta.uid else "MODIFIED", one)


def _key(one: LLMService) -> Key:
    return (one.metadata.namespace, one.metadata.name)


def _nothing() -> None:
    return


async def watch(
    api: Api, what: Collection, patience_s: float, on_listed: Callable[[], None] = _nothing
) -> AsyncGenerator[WatchEvent]:
    """Every change for ever; UnreachableError after `patience_s` seconds without an answer.

    `on_listed` is called whenever all that is there has been told.
    """
    limit: int | None = WATCHED_PAGE
    told, version = _Delivered(), ""
    pause_s, silent_since = PAUSE_FIRST_S, time.monotonic()
    while True:
        try:
            if not version:
                async with aclosing(_difference(api, what, limit, told)) as fresh:
                    async for event in fresh:
                        yield event
                version = told.version
                on_listed()
            async with aclosing(_stream(api, what, version)) as rows:
                async for type_, raw in rows:
                    version = str(dig(raw, "metadata", "resourceVersion") or version)
                    pause_s, silent_since = PAUSE_FIRST_S, time.monotonic()
                    for event in told.change(type_, service_of(raw)) if type_ != "BOOKMARK" else ():
                        yield event
            silent_since = time.monotonic()  # the server ended it in order
        except ExpiredError:
            limit = WATCHED_PAGE if version else None  # one that expired between pages is read again in one
            version, silent_since = "", time.monotonic()
        except UnreachableError:
            if time.monotonic() - silent_since > patience_s:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(PAUSE_MAX_S, 2 * pause_s)


async def _difference(api: Api, what: Collection, limit: int | None, told: _Delivered) -> AsyncGenerator[WatchEvent]:
    """What a fresh list has and the caller does not know; deletions come last. One page is in memory at a time."""
    told.begin()
    async with aclosing(_pages(api, what, limit)) as pages:
        async for page in pages:
            for event in told.page(page.rows):
                yield event
            told.version = page.version
    for event in told.end():
        yield event


async def _stream(api: Api, what: Collection, version: str) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
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
