"""Follows one kind by list and watch, for ever: fills its shelf of the store and tells which object changed.

Not kopf: after a gap in its stream it lists anew and never says what is gone, so a memory fed by it keeps ghosts; and
nobody can ask it whether a watch is alive. Here a list drops what it does not name, bookmarks prove that a quiet stream
lives, and a stream without them is opened again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from windlass_operator.cluster.rest import UNREACHABLE, Kind, Rest, StatusError, path_of, resource_of

logger = logging.getLogger(__name__)
PAGE = "500"
STREAM_S = (240, 360)  # the API server ends a stream after so long; a random time spreads them
SILENCE_S = 150.0  # it sends a bookmark each minute; after two lost ones the stream is dead
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 30.0
UNSERVED = (403, 404)
PAUSE_S = 0.2  # between two streams
ABSENT_AGAIN_S = 300.0  # an API that nobody serves may be installed later


class GoneError(Exception):
    """The version that we would go on from is forgotten: list anew."""


class Page(msgspec.Struct):
    """One page of a list; the objects are decoded one by one, so that a long list needs little memory."""

    metadata: dict[str, Any]
    items: list[msgspec.Raw]


class Event(msgspec.Struct):
    """One line of a watch; the object is decoded by who wants it."""

    type: str
    object: msgspec.Raw


class Sink(Protocol):
    """What becomes of the objects that a watch sees."""

    def put(self, item: Mapping[str, Any]) -> None:
        """It is there, or has changed."""

    def drop(self, item: Mapping[str, Any]) -> None:
        """It is gone."""

    def keep(self, places: set[tuple[str, str]], version: int) -> None:
        """A whole list of that version is through; all others are gone."""

    def passed(self, version: int) -> None:
        """Nothing happened up to this version."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One kind to follow, and which of its objects."""

    kind: Kind
    labels: str = ""
    fields: str = ""
    optional: bool = False  # an API that not every cluster serves
    purpose: str = ""  # tells two watches of one kind apart

    @property
    def name(self) -> str:
        """The kind's name."""
        return str(resource_of(self.kind).kind)

    @property
    def label(self) -> str:
        """What logs and metrics call this watch."""
        return f"{self.name} ({self.purpose})" if self.purpose else self.name


@dataclass(slots=True)
class Pulse:
    """Whether a watch lives; times are of the monotonic clock."""

    synced: bool = False
    absent: bool = False  # nobody serves this API
    heard: float = 0.0  # when the API server last said anything
    failing_since: float | None = None
    error: str = ""

    def alive(self, now: float, patience_s: float) -> bool:
        """Listed once, heard of lately, and not failing for longer than that."""
        if self.absent:
            return True
        failing = self.failing_since is not None and now - self.failing_since > patience_s
        return self.synced and not failing and now - self.heard < SILENCE_S + patience_s


@dataclass
class Watch:
    """The shell around one list and watch."""

    rest: Rest
    row: Watched
    namespace: str | None
    sink: Sink
    clock: Callable[[], float] = time.monotonic
    pulse: Pulse = field(default_factory=Pulse)
    _version: str = ""  # where to go on; empty: from a new list

    async def run(self) -> None:
        """Follow until cancelled; every failure is said once and tried again."""
        failures = 0
        while True:
            try:
                self._version = self._version or await self._list()
                failures = 0
                await self._stream()
                await asyncio.sleep(PAUSE_S)
            except GoneError as gone:
                logger.info("the watch of %s begins anew: %s", self.row.label, gone)
                self._version = ""
                await asyncio.sleep(PAUSE_S)
            except (StatusError, *UNREACHABLE, msgspec.MsgspecError) as error:
                if await self._absent(error):
                    self._version = ""
                    continue
                failures += 1
                self._failed(error)
                await asyncio.sleep(_backoff_s(failures))
                self._version = self._version if _may_go_on(error) else ""

    async def _list(self) -> str:
        """Read everything in pages; the version to watch from."""
        places, version, following = set(), "", ""
        what = resource_of(self.row.kind)
        while not version or following:
            page = await self._page(following)
            for raw in page.items:
                item = msgspec.json.decode(raw)
                # In a list the API server leaves out what the list's own kind says.
                self.sink.put({"apiVersion": what.api_version, "kind": what.kind, **item})
                places.add((item["metadata"].get("namespace") or "", item["metadata"]["name"]))
            version, following = page.metadata["resourceVersion"], page.metadata.get("continue") or ""
        self.sink.keep(places, int(version))
        self._heard(synced=True)
        return version

    async def _page(self, following: str) -> Page:
        params = {**self._selectors, "limit": PAGE, **({"continue": following} if following else {})}
        return msgspec.json.decode(await self.rest.call("GET", self._path, params), type=Page)

    async def _stream(self) -> None:
        """One stream from where we are to its end."""
        seconds = str(random.randint(*STREAM_S))  # noqa: S311 - spreads load
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        stream = self.rest.lines(self._path, {**self._selectors, **params, "resourceVersion": self._version})
        async with aclosing(stream) as lines:
            while True:
                async with asyncio.timeout(SILENCE_S):
                    line = await anext(lines, None)
                if line is None:
                    return
                self._take(msgspec.json.decode(line, type=Event))

    def _take(self, event: Event) -> None:
        self._heard()
        item = msgspec.json.decode(event.object)
        if event.type == "ERROR":
            raise GoneError(str(item.get("message")))
        self._version = str(item["metadata"]["resourceVersion"])
        if event.type == "BOOKMARK":
            self.sink.passed(int(self._version))
        elif event.type == "DELETED":
            self.sink.drop(item)
        else:
            self.sink.put(item)

    @property
    def _path(self) -> str:
        return path_of(self.row.kind, self.namespace)

    @property
    def _selectors(self) -> dict[str, str]:
        both = {"labelSelector": self.row.labels, "fieldSelector": self.row.fields}
        return {name: text for name, text in both.items() if text}

    def _heard(self, synced: bool = False) -> None:
        self.pulse.heard = self.clock()
        self.pulse.synced |= synced
        if self.pulse.failing_since is not None:
            logger.info("the watch of %s is back", self.row.label)
        self.pulse.failing_since, self.pulse.error = None, ""

    def _failed(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if self.pulse.failing_since is None:
            self.pulse.failing_since = self.clock()
        if text != self.pulse.error:
            logger.warning("the watch of %s fails: %s", self.row.label, text)
        self.pulse.error = text

    async def _absent(self, error: Exception) -> bool:
        """Whether nobody serves this API, or we may not read it, and it is no loss; then waits a while."""
        if not (self.row.optional and _status(error) in UNSERVED):
            return False
        if not self.pulse.absent:
            logger.info("no %s here: %s", self.row.name, error)
        self.sink.keep(set(), 0)
        self.pulse.absent = True
        await asyncio.sleep(ABSENT_AGAIN_S)
        self.pulse.absent = False
        return True


def _status(error: Exception) -> int | None:
    return error.code if isinstance(error, StatusError) else None


def _may_go_on(error: Exception) -> bool:
    """A broken connection loses nothing; an answer that refuses the version needs a new list."""
    return _status(error) is None


def _backoff_s(failures: int) -> float:
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 10)) * random.uniform(0.8, 1.2)  # noqa: S311
