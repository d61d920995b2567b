"""Leader election of operator and license server: one replica renews a Lease, the others watch it.

`decide` compares no clocks of two machines. It counts the time since this replica last saw the Lease change: after the
duration in the Lease, the holder is gone. A holder stops writing some seconds before its Lease ends, so no write of a
replica without a network meets a write of its successor.

`attempt` and `release` do no I/O: they yield requests and receive the answers. The caller runs them on an event loop or
a thread, and throws an exception into them when there is no answer. An answer that holds no Lease is a KubeError, and
changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeAlias

from windlass_base.kube.service_account import KubeError

NOT_FOUND, CONFLICT = 404, 409
ANSWERS = (NOT_FOUND, CONFLICT)
"""Refusals that the election handles; any other refusal ends the attempt."""
NOBODY = "nobody"
GONE = ""
"""Stands for the version of a Lease that was deleted."""
NUMBER_END = 2**31
"""The numbers in a Lease are of 32 bits."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a Lease lasts and how often it is renewed, in seconds."""

    duration_s: int = 15  # the others wait so long for a change
    deadline_s: float = 7.0  # the holder may write so long after its last renewal
    renew_s: float = 2.0
    watch_s: float = 2.0
    request_s: float = 7.0  # less than duration - deadline: a write in flight ends before a successor begins


class Act(Enum):
    """What a replica does with the Lease."""

    TAKE = "take"
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Seen:
    """The Lease as it was last read, and the monotonic time since when it has not changed."""

    version: str
    holder: str
    duration_s: float
    since: float


def decide(seen: Seen | None, me: str, now: float) -> Act:
    """The next step of the replica `me`; `seen` is None where no Lease was ever read."""
    if seen is None or not seen.holder:
        return Act.TAKE
    if seen.holder == me:
        return Act.RENEW
    return Act.TAKE if now - seen.since > seen.duration_s else Act.WAIT


def observed(before: Seen | None, lease: Mapping[str, Any], now: float) -> Seen:
    """The Lease as read now; `since` changes only when the Lease has changed."""
    version, spec = str(lease["metadata"]["resourceVersion"]), lease.get("spec") or {}
    if before is not None and before.version == version:
        return before
    return Seen(version, str(spec.get("holderIdentity") or ""), float(spec.get("leaseDurationSeconds") or 0), now)


def deleted(before: Seen | None, now: float) -> Seen | None:
    """A Lease that is no longer there: a change like any other, so that its holder may notice it before a successor."""
    if before is None or before.version == GONE:
        return before
    return Seen(GONE, before.holder, before.duration_s, now)


def written(lease: Mapping[str, Any] | None, name: str, holder: str, times: LeaseTimes, now: str) -> dict[str, Any]:
    """The Lease as `holder` writes it; a change of the holder counts as a transition, an empty holder releases it."""
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
    """The Lease's namespace and name, and the replica that asks for it."""

    namespace: str
    name: str
    me: str

    def path(self, name: str = "") -> str:
        """The API path of all Leases of the namespace, or of the Lease `name`."""
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return f"{collection}/{name}" if name else collection


@dataclass(frozen=True, slots=True)
class LeaseCall:
    """A request to the API server."""

    method: str
    path: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LeaseReply:
    """The Lease, or one of ANSWERS and no Lease; what came with it is checked by who takes it for a Lease."""

    code: int
    lease: Any = field(default_factory=dict)


def checked(answer: object, name: LeaseName) -> dict[str, Any]:
    """The Lease in an answer; KubeError when what is read of one is not there, as from a proxy that answers 200."""
    if not isinstance(answer, dict):
        raise _no_lease(name, f"it is {type(answer).__name__}")
    metadata, spec = answer.get("metadata"), answer.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise _no_lease(name, "metadata or spec is no object")
    version, holder = metadata.get("resourceVersion"), spec.get("holderIdentity") or ""
    if not isinstance(version, str) or not version or not isinstance(holder, str):
        raise _no_lease(name, "metadata.resourceVersion or spec.holderIdentity is no text")
    for number in ("leaseDurationSeconds", "leaseTransitions"):
        value = spec.get(number) or 0
        if not isinstance(value, int | float) or not 0 <= value < NUMBER_END:
            raise _no_lease(name, f"spec.{number} is no number of a Lease")
    return answer


def _no_lease(name: LeaseName, why: str) -> KubeError:
    return KubeError(
        f"Lease {name.namespace}/{name.name}: the API server's answer holds no Lease ({why}); "
        "check what stands between this pod and the API server"
    )


Steps: TypeAlias = Generator[LeaseCall, LeaseReply, None]


def boot_time() -> float:
    """Seconds since boot, those of a suspended machine included: they pass for the other replicas, too."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class Lease:
    """One replica's view of the Lease; the caller checks `holds` before every write."""

    name: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    clock: Callable[[], float] = boot_time
    _until: float = float("-inf")  # clock time until when this replica may write
    _seen: Seen | None = None
    _live: dict[str, Any] | None = None
    _sure: bool = False  # False after a write without an answer, which may have happened

    def holds(self) -> bool:
        """Whether this replica may write now."""
        return self.clock() < self._until

    def holder(self) -> str:
        """The holder when the Lease was last read."""
        return (self._seen.holder if self._seen else "") or NOBODY

    def attempt(self) -> Steps:
        """Read the Lease, then take it, renew it or wait. Without an answer a holder stays one until its deadline."""
        begun = self.clock()
        if not (
            self.holds() and self._sure
        ):  # else its own last write is still there, or the version refuses the next one
            yield from self._read()
        if decide(self._seen, self.name.me, self.clock()) is Act.WAIT:
            self._until = float("-inf")
        elif (yield from self._write(self.name.me)):
            self._until = begun + self.times.deadline_s  # from before the request: the others count from a later time
        else:  # another client wrote in between
            self._until = float("-inf")
            yield from self._read()

    def release(self) -> Steps:
        """Release the Lease, so that the next replica need not wait; leave a Lease of another replica as it is."""
        held, self._until = self.holds(), float("-inf")
        if held and not self._sure:
            yield from self._read()
        if held and self.holder() == self.name.me:
            yield from self._write("")

    def _read(self) -> Steps:
        answer = yield LeaseCall("GET", self.name.path(self.name.name))
        self._live = None if answer.code in ANSWERS else checked(answer.lease, self.name)
        now = self.clock()
        self._seen = deleted(self._seen, now) if self._live is None else observed(self._seen, self._live, now)
        self._sure = True

    def _write(self, holder: str) -> Generator[LeaseCall, LeaseReply, bool]:
        """Replace the Lease as it was read; the API server refuses that when its version has changed."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = written(self._live, self.name.name, holder, self.times, now)
        verb, name = ("PUT", self.name.name) if self._live else ("POST", "")
        self._sure = False
        answer = yield LeaseCall(verb, self.name.path(name), body)
        if answer.code in ANSWERS:
            self._sure = True
            return False
        self._live = checked(answer.lease, self.name)
        self._sure = True
        self._seen = observed(self._seen, self._live, self.clock())
        return True
