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

from windlass_operator.cluster import decode
from windlass_operator.cluster.pages import Pages
from windlass_operator.cluster.rest import (
    METADATA,
    UNREACHABLE,
    Kind,
    Rest,
    StatusError,
    TooLargeError,
    path_of,
    resource_of,
)

logger = logging.getLogger(__name__)
STREAM_S = (240, 360)  # the API server ends a stream after so long; a random time spreads them
SILENCE_S = 150.0  # it sends a bookmark each minute; after two lost ones the stream is dead
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 30.0
UNSERVED = (403, 404)
PAUSE_S = 0.2  # between two streams
ABSENT_AGAIN_S = 300.0  # an API that nobody serves may be installed later


class GoneError(Exception):
    """The version that we would go on from is forgotten: list anew."""


Place = tuple[str, str]  # namespace, name
TOLD_MAX = 1000


class Sink(Protocol):
    """What becomes of the objects that a watch sees."""

    def put(self, item: Mapping[str, Any]) -> None:
        """It is there, or has changed."""

    def drop(self, item: Mapping[str, Any]) -> None:
        """It is gone."""

    def keep(self, places: set[Place], version: int) -> None:
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
    metadata_only: bool = False  # nobody reads what these objects say
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
    _told: set[Place | None] = field(default_factory=set)  # objects whose failure the log has
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
            except (StatusError, TooLargeError, *UNREACHABLE, msgspec.MsgspecError) as error:
                if await self._absent(error):
                    self._version = ""
                    continue
                failures += 1
                self._failed(error)
                await asyncio.sleep(_backoff_s(failures))
                self._version = self._version if _may_go_on(error) else ""
            except Exception as error:  # the outermost loop: whatever one watch meets, the others and the work go on
                failures += 1
                logger.exception("the watch of %s failed; it begins anew", self.row.label)
                self._failed(error)
                await asyncio.sleep(_backoff_s(failures))
                self._version = ""

    async def _list(self) -> str:
        """Read everything in pages; the version to watch from."""
        places, version = set(), ""
        async for page in Pages(self.rest, self._path, self._selectors, self.row.metadata_only)():
            places |= {place for raw in page.items if (place := self._listed(bytes(raw)))}
            version = str(page.metadata["resourceVersion"])
        self.sink.keep(places, int(version))
        self._heard(synced=True)
        return version

    def _listed(self, raw: bytes) -> Place | None:
        """Take one object of a list; what is wrong with it is its own, and told once."""
        what, place = resource_of(self.row.kind), None
        try:
            # In a list the API server leaves out what the list's own kind says.
            item = {"apiVersion": what.api_version, "kind": what.kind, **decode.manifest(raw)}
            place = place_of(item)
            self.sink.put(item)
        except Exception as error:  # one broken object must never stop the others
            self._unreadable(place, error)
        return place

    async def _stream(self) -> None:
        """One stream from where we are to its end."""
        seconds = str(random.randint(*STREAM_S))  # noqa: S311 - spreads load
        params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        params |= {**self._selectors, "resourceVersion": self._version}
        stream = self.rest.lines(self._path, params, METADATA if self.row.metadata_only else "")
        async with aclosing(stream) as lines:
            while True:
                async with asyncio.timeout(SILENCE_S):
                    line = await anext(lines, None)
                if line is None:
                    return
                self._take(decode.event(line))

    def _take(self, event: decode.Event) -> None:
        self._heard()
        if event.type == "ERROR":
            raise GoneError(str(msgspec.json.decode(event.object).get("message")))
        item = decode.manifest(bytes(event.object))
        self._version = str(item["metadata"]["resourceVersion"])
        if event.type == "BOOKMARK":
            self.sink.passed(int(self._version))
            return
        try:
            (self.sink.drop if event.type == "DELETED" else self.sink.put)(item)
        except Exception as error:  # one broken object must never stop the others
            self._unreadable(place_of(item), error)

    def _unreadable(self, place: Place | None, error: Exception) -> None:
        """Tell it once for each object, with the traceback: it is a bug of ours or an object of no kind we know."""
        if place in self._told:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told.add(place)
        logger.error("%s %s cannot be read; it is left out", self.row.name, place or "(unnamed)", exc_info=error)

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


def place_of(item: Mapping[str, Any]) -> Place:
    """Namespace, empty for an object of the whole cluster, and name."""
    meta = item["metadata"]
    return (str(meta.get("namespace") or ""), str(meta["name"]))


def _status(error: Exception) -> int | None:
    return error.code if isinstance(error, StatusError) else None


def _may_go_on(error: Exception) -> bool:
    """A broken connection loses nothing; an answer that refuses the version needs a new list."""
    return _status(error) is None


def _backoff_s(failures: int) -> float:
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 10)) * random.uniform(0.8, 1.2)  # noqa: S311
