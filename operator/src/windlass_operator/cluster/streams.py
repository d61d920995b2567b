"""What the operator knows of one of kopf's streams: its last list, and whether it lives.

kopf lists and watches; `wire.py` hands over pages, lines and failures as they pass. An object is in the store before
kopf sees it. kopf gets one object for each stream, whose name and uid are the stream's, and with each event the keys
that it concerns; an event that concerns no key passes kopf as a bookmark. So kopf keeps one record and one worker for
each stream, and not for each object of the cluster (ADR 65).
A list drops what it does not name, so an object deleted in the gap of a `410 Gone` leaves with the next list. No I/O.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from windlass_operator.cluster import decode
from windlass_operator.cluster.kinds import Kind
from windlass_operator.cluster.store import Place, version_of

logger = logging.getLogger(__name__)
SILENCE_S = 150.0  # the API server sends a bookmark each minute; after two lost ones the stream is dead
TOLD_MAX = 1000
UNSERVED = (403, 404)
DELETED, KEYS = "DELETED", "keys"
Keys = Collection[Place]  # namespaces and names of the LLMServices that are to be reconciled


class Sink(Protocol):
    """What becomes of the objects that a stream brings."""

    def put(self, item: Mapping[str, Any]) -> Keys:
        """It is there, or has changed; returns the keys that wait for no reconcile yet."""

    def drop(self, item: Mapping[str, Any]) -> Keys:
        """It is gone; returns as `put`."""

    def keep(self, places: set[Place], version: int) -> None:
        """A whole list of that version is through; all others are gone."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One kind to follow, and which of its objects."""

    kind: Kind
    labels: str = ""
    optional: bool = False  # an API that not every cluster serves
    metadata_only: bool = False  # nobody reads what these objects say
    scope: str = ""  # the namespace of a stream that follows one alone

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.kind.kind

    @property
    def label(self) -> str:
        """What logs and metrics call this stream."""
        return f"{self.name} ({self.scope})" if self.scope else self.name


@dataclass(slots=True)
class Pulse:
    """Whether a stream lives; times are of the monotonic clock."""

    synced: bool = False
    absent: bool = False  # nobody serves this API
    heard: float = 0.0  # when the API server last said anything
    failing_since: float | None = None
    failures: int = 0  # in a row
    error: str = ""

    def alive(self, now: float, patience_s: float) -> bool:
        """Listed once, heard of lately, and not failing for longer than that."""
        if self.absent:
            return True
        failing = self.failing_since is not None and now - self.failing_since > patience_s
        return self.synced and not failing and now - self.heard < SILENCE_S + patience_s


@dataclass
class Stream:
    """One kind in one scope, as kopf follows it."""

    row: Watched
    sink: Sink
    clock: Callable[[], float] = time.monotonic
    pulse: Pulse = field(default_factory=Pulse)
    _named: set[Place] = field(default_factory=set)  # by the pages so far of the list under way
    _listed: int = -1  # the version of the last whole list
    _told: set[Place] = field(default_factory=set)  # objects whose failure the log has

    def take_page(self, raws: Iterable[bytes], version: int, *, first: bool, last: bool) -> bytes | None:
        """Take in a page of a list; returns what kopf gets in its place, as `take`: one item for all of its objects."""
        places: set[Place] = set()
        keys: set[Place] = set()
        for raw in raws:
            place = decode.identity(raw).place
            places.add(place)
            keys.update(self._taken(None, place, raw))
        self.page(places, version, first=first, last=last)
        return self._handed(str(version), sorted(keys))

    def page(self, places: set[Place], version: int, *, first: bool, last: bool) -> None:
        """A page of a list has passed, and its objects have been taken."""
        if first:
            self._named = set()
        self._named |= places
        if last:
            self._listed = version
            self.pulse.absent = False
            self.sink.keep(self._named, version)
            self._named = set()
        self.heard()

    def take(self, type_: str, raw: bytes) -> bytes | None:
        """Take in an object of an event, decoded within bounds.

        Returns what kopf gets in its place: the stream's own object with the event's version, and the keys that the
        event concerns. None: it concerns no key.
        """
        identity = decode.identity(raw)
        return self._handed(identity.resourceVersion, self._taken(type_, identity.place, raw))

    def _handed(self, version: str, keys: Keys) -> bytes | None:
        if not keys:
            return None
        label = self.row.label
        return msgspec.json.encode(
            {"metadata": {"name": label, "uid": label, "resourceVersion": version}, KEYS: list(keys)}
        )

    def _taken(self, type_: str | None, place: Place, raw: bytes) -> Keys:
        try:
            what = {"apiVersion": self.row.kind.api_version, "kind": self.row.kind.kind}
            item = {**what, **decode.manifest(raw)}
            if type_ is not None and version_of(item["metadata"].get("resourceVersion")) <= self._listed:
                return ()  # older than the last list, which says more
            return self.sink.drop(item) if type_ == DELETED else self.sink.put(item)
        except Exception as error:  # one broken object must never stop the others
            self._unreadable(place, error)
            return ()

    def heard(self) -> None:
        """The API server said something."""
        self.pulse.heard = self.clock()
        self._settle()
        if self.pulse.failing_since is not None:
            logger.info("the watch of %s is back", self.row.label)
        self.pulse.failing_since, self.pulse.failures, self.pulse.error = None, 0, ""

    def _settle(self) -> None:
        self.pulse.synced |= self._listed >= 0

    def failed(self, error: str, status: int = 0) -> int:
        """A request of this stream failed; returns how often in a row."""
        if self.row.optional and status in UNSERVED:
            self.unserved(error)
        if self.pulse.failing_since is None:
            self.pulse.failing_since = self.clock()
        if error != self.pulse.error and not self.pulse.absent:
            logger.warning("the watch of %s fails: %s", self.row.label, error)
        self.pulse.error = error
        self.pulse.failures += 1
        return self.pulse.failures

    def unserved(self, why: str) -> None:
        """Nobody serves this API, or we may not read it, and it is no loss: nothing of it exists for us."""
        if not self.pulse.absent:
            logger.info("no %s here: %s", self.row.name, why)
        self.pulse.absent = True
        self.sink.keep(set(), 0)

    def _unreadable(self, place: Place, error: Exception) -> None:
        """Tell it once for each object, with the traceback: it is a bug of ours or an object of no kind we know."""
        if place in self._told:
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told.add(place)
        logger.error("%s %s cannot be read; it is left out", self.row.name, place, exc_info=error)
