"""Leader election: a Lease that one replica renews and the others watch. Operator and license server hold theirs by it.

`decide` goes by change that was observed, never by comparing two machines' clocks: a holder is gone when its Lease has
stood still for as long as it promised to renew. A holder stops some seconds before its Lease ends, so that no write of
a replica that was cut off can meet one of its successor.

Nothing here speaks to the API server: `attempt` and `release` yield requests and are sent the answers. Whoever runs
them, on an event loop or a thread, ends them with an exception when there is no answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeAlias

NOT_FOUND, CONFLICT = 404, 409
ANSWERS = (NOT_FOUND, CONFLICT)
"""Refusals that are answers to a request for a Lease; every other one ends the attempt."""
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a Lease lasts and how often it is renewed, in seconds."""

    duration_s: int = 15  # that long the others wait for a change
    deadline_s: float = 7.0  # that long after the last renewal the holder may still write
    renew_s: float = 2.0
    watch_s: float = 2.0
    request_s: float = 7.0  # less than there is between deadline and duration: a write in flight has ended by then


class Act(Enum):
    """What to do about the Lease now."""

    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Seen:
    """The Lease as it was last read, and since when it reads so (monotonic)."""

    version: str
    holder: str
    duration_s: float
    since: float


def decide(seen: Seen | None, me: str, now: float) -> Act:
    """What `me` does: None means that there is no Lease."""
    if seen is None or not seen.holder:
        return Act.TAKE
    if seen.holder == me:
        return Act.RENEW
    return Act.TAKE if now - seen.since > seen.duration_s else Act.WAIT


def observed(before: Seen | None, lease: Mapping[str, Any], now: float) -> Seen:
    """What was read; its time begins anew only when the Lease has changed."""
    version, spec = str(lease["metadata"]["resourceVersion"]), lease.get("spec") or {}
    if before is not None and before.version == version:
        return before
    return Seen(version, str(spec.get("holderIdentity") or ""), float(spec.get("leaseDurationSeconds") or 0), now)


def written(lease: Mapping[str, Any] | None, name: str, holder: str, times: LeaseTimes, now: str) -> dict[str, Any]:
    """The Lease as `holder` writes it; a new holder is a transition. An empty holder releases it."""
    old = dict((lease or {}).get("spec") or {})
    changed = holder != old.get("holderIdentity")
    spec = {
        **old,
        "holderIdentity": holder,
        "leaseDurationSeconds": times.duration_s if holder else 1,
        "renewTime": now,
        "acquireTime": now if changed or "acquireTime" not in old else old["acquireTime"],
        "leaseTransitions": int(old.get("leaseTransitions") or 0) + int(bool(changed and lease and holder)),
    }
    metadata = (lease or {}).get("metadata") or {"name": name}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where the Lease lies and who asks for it."""

    namespace: str
    name: str
    me: str

    def path(self, name: str = "") -> str:
        """Of the collection, or of the Lease `name` in it."""
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return f"{collection}/{name}" if name else collection


@dataclass(frozen=True, slots=True)
class Request:
    """What the API server is asked."""

    method: str
    path: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The Lease, or one of ANSWERS without one."""

    code: int
    lease: dict[str, Any] = field(default_factory=dict)


Steps: TypeAlias = Generator[Request, Answer, None]


def boot_time() -> float:
    """Seconds that also pass while the machine is suspended, as they pass for the others."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class Lease:
    """One replica's view of the Lease; `holds` is asked before every write."""

    name: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    clock: Callable[[], float] = boot_time
    _until: float = float("-inf")  # may write until then
    _seen: Seen | None = None
    _live: dict[str, Any] | None = None
    _sure: bool = False  # a write without an answer may have happened

    def holds(self) -> bool:
        """Whether this replica may write now."""
        return self.clock() < self._until

    def holder(self) -> str:
        """Whose Lease it was when it was last seen."""
        return (self._seen.holder if self._seen else "") or NOBODY

    def attempt(self) -> Steps:
        """Read the Lease, then take it, renew it or wait; without an answer a holder stays one until its deadline."""
        begun = self.clock()
        if not (self.holds() and self._sure):  # else it knows what it wrote last; the version says whether it is so
            yield from self._read()
        if decide(self._seen, self.name.me, self.clock()) is Act.WAIT:
            self._until = float("-inf")
        elif (yield from self._write(self.name.me)):
            self._until = begun + self.times.deadline_s  # from before the request: the promise counts from its arrival
        else:  # someone else has touched it
            self._until = float("-inf")
            yield from self._read()

    def release(self) -> Steps:
        """Let go at once, so that the next need not wait; of a Lease that is not ours nothing is written."""
        held, self._until = self.holds(), float("-inf")
        if held and not self._sure:
            yield from self._read()
        if held and self.holder() == self.name.me:
            yield from self._write("")

    def _read(self) -> Steps:
        answer = yield Request("GET", self.name.path(self.name.name))
        self._sure = True
        self._live = None if answer.code in ANSWERS else answer.lease
        self._seen = None if self._live is None else observed(self._seen, self._live, self.clock())

    def _write(self, holder: str) -> Generator[Request, Answer, bool]:
        """Replace what was read; somebody else's write in between is refused by its version."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = written(self._live, self.name.name, holder, self.times, now)
        verb, name = ("PUT", self.name.name) if self._live else ("POST", "")
        self._sure = False
        answer = yield Request(verb, self.name.path(name), body)
        self._sure = True
        if answer.code in ANSWERS:
            return False
        self._live = answer.lease
        self._seen = observed(self._seen, self._live, self.clock())
        return True
