"""The election inside a cluster: a Lease of coordination.k8s.io, taken and renewed as Kubernetes' own controllers do.

Whoever wrote it last with a live `renewTime` is active. A replica that cannot renew stops being valid after
`deadline_s`, which is shorter than the `duration_s` after which another may take over. Time is CLOCK_BOOTTIME: it goes
on while the process is stopped and while the node is suspended. Clocks of nodes are never compared: a replica takes
over when it saw the same record for `duration_s` by its own clock.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windlass_license.cluster.api_server import KubeApi, KubeError

log = logging.getLogger("windlass_license")
Seconds = Callable[[], float]


def boottime() -> float:
    """Seconds that nothing holds up."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease, and under what name this replica holds it."""

    namespace: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a holder may be silent; the same defaults as Kubernetes' own leader election."""

    duration_s: int = 15
    deadline_s: float = 10.0
    retry_s: float = 2.0


class KubeLease:
    """One replica's view of the Lease."""

    def __init__(self, api: KubeApi, name: LeaseName, pace: Pace = Pace(), clock: Seconds = boottime) -> None:
        self._api, self._name, self._pace, self._clock = api, name, pace, clock
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{name.namespace}/leases"
        self._valid_until = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        self._holder = "nobody"
        self.period_s = pace.retry_s

    def attempt(self) -> bool:
        """Take or renew the Lease; a server that does not answer leaves things as they are until the deadline."""
        begun = self._clock()
        try:
            if self._write():
                self._valid_until = begun + self._pace.deadline_s
            else:
                self._valid_until = 0.0
        except KubeError as error:
            log.warning("cannot take or renew the Lease %s/%s: %s", self._name.namespace, self._name.name, error)
        return self.valid()

    def valid(self) -> bool:
        """Whether the last renewal is recent enough that nobody can have taken over."""
        return self._clock() < self._valid_until

    def release(self) -> None:
        """Empty the Lease, so that the next replica need not wait; only when it is ours."""
        self._valid_until = 0.0
        try:
            status, lease = self._api.call("GET", f"{self._collection}/{self._name.name}")
            if status == 200 and lease["spec"].get("holderIdentity") == self._name.identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
                self._api.call("PUT", f"{self._collection}/{self._name.name}", lease)
        except KubeError as error:
            log.warning("the Lease was not released, it runs out by itself: %s", error)

    def holder(self) -> str:
        """The identity in the Lease as it was seen last."""
        return self._holder

    def _write(self) -> bool:
        """One round: read, and write unless another holds it. A conflict means that another was faster."""
        status, lease = self._api.call("GET", f"{self._collection}/{self._name.name}")
        if status == 404:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name.name}}
            status, lease = self._api.call("POST", self._collection, {**body, "spec": self._spec({})})
            return status in (200, 201) and self._now_mine()
        old = lease.get("spec") or {}
        self._holder = old.get("holderIdentity") or "nobody"
        if not self._may_take(lease, old):
            return False
        status, _ = self._api.call("PUT", f"{self._collection}/{self._name.name}", {**lease, "spec": self._spec(old)})
        return status == 200 and self._now_mine()

    def _may_take(self, lease: dict[str, Any], old: dict[str, Any]) -> bool:
        version, now = str(lease["metadata"]["resourceVersion"]), self._clock()
        if version != self._seen[0]:
            self._seen = (version, now)
        if old.get("holderIdentity") in (None, "", self._name.identity):
            return True
        return now - self._seen[1] > float(old.get("leaseDurationSeconds") or self._pace.duration_s)

    def _spec(self, old: dict[str, Any]) -> dict[str, Any]:
        now, mine = _micro_time(), old.get("holderIdentity") == self._name.identity
        return {
            "holderIdentity": self._name.identity,
            "leaseDurationSeconds": self._pace.duration_s,
            "acquireTime": old.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (0 if mine else 1),
        }

    def _now_mine(self) -> bool:
        self._holder = self._name.identity
        return True


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
