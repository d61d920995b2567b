"""Leader election: a Lease that one replica renews and the others watch; only its holder writes.

`decide` is the pure core. It goes by change that was observed, never by comparing two machines' clocks: a holder is
gone when its Lease has stood still for as long as it promised to renew. `LeaderElection` is the shell. It stops holding
some seconds before the Lease ends, so that no write of a replica that was cut off can meet one of its successor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec

from windlass_operator.cluster.kinds import Leases
from windlass_operator.cluster.rest import UNREACHABLE, Rest, StatusError

NOT_FOUND, CONFLICT = 404, 409
PAUSE_MIN_S = 0.1
logger = logging.getLogger(__name__)


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


def boot_time() -> float:
    """Seconds that also pass while the machine is suspended, as they pass for the others."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class LeaderElection:
    """Keeps the Lease of one replica; `holds` is asked before every write."""

    rest: Rest
    lease: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    clock: Callable[[], float] = boot_time
    _until: float = float("-inf")  # may write until then
    _seen: Seen | None = None
    _live: dict[str, Any] | None = None
    _said: str = ""

    def holds(self) -> bool:
        """Whether this replica may write now."""
        return self.clock() < self._until

    async def keep(self, changed: Callable[[bool], None]) -> None:
        """Take, renew, wait, for ever; tells each change of `holds` as it is noticed."""
        told = False
        while True:
            begun = self.clock()
            await self.attempt()
            if self.holds() != told:
                told = self.holds()
                changed(told)
            pause_s = self.times.renew_s if told else self.times.watch_s
            await asyncio.sleep(max(PAUSE_MIN_S, begun + pause_s - self.clock()))  # a slow answer delays no renewal

    async def release(self) -> None:
        """Let go at once, so that the stand-by need not wait; what cannot be told is waited out."""
        held, self._until = self.holds(), float("-inf")
        if not held:
            return
        try:
            async with asyncio.timeout(self.times.request_s):
                await self._write("")
        except (StatusError, *UNREACHABLE) as error:
            logger.warning("the lease %s is not released: %s", self.lease.name, error)

    async def attempt(self) -> None:
        """Read the Lease, then take it, renew it or wait."""
        begun = self.clock()
        try:
            async with asyncio.timeout(self.times.request_s):
                if not self.holds():  # the holder knows what it wrote last; that it is still so, the version says
                    await self._read()
                if decide(self._seen, self.lease.me, self.clock()) is Act.WAIT:
                    self._until = float("-inf")
                    self._say(f"stand-by: {self._seen.holder if self._seen else ''} leads")
                    return
                await self._write(self.lease.me)
        except (StatusError, *UNREACHABLE) as error:
            if isinstance(error, StatusError) and error.code in (NOT_FOUND, CONFLICT):  # someone else has touched it
                self._until = float("-inf")
            self._say(f"the lease {self.lease.namespace}/{self.lease.name} cannot be had: {_words(error)}")
            return
        self._until = begun + self.times.deadline_s  # from before the request: the promise counts from its arrival
        self._say(f"leading as {self.lease.me}")

    async def _read(self) -> None:
        try:
            self._live = _decoded(await self.rest.call("GET", Leases.path(self.lease.namespace, self.lease.name)))
            self._seen = observed(self._seen, self._live, self.clock())
        except StatusError as error:
            if error.code != NOT_FOUND:
                raise
            self._live = self._seen = None

    async def _write(self, holder: str) -> None:
        """Replace what was read; somebody else's write in between is refused by its version."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = written(self._live, self.lease.name, holder, self.times, now)
        verb, name = ("PUT", self.lease.name) if self._live else ("POST", "")
        self._live = _decoded(await self.rest.call(verb, Leases.path(self.lease.namespace, name), body=body))
        self._seen = observed(self._seen, self._live, self.clock())

    def _say(self, words: str) -> None:
        if words != self._said:
            logger.info("%s", words)
        self._said = words


def _decoded(text: bytes) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any])


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
