"""How soon one LLMService is looked at again when no event comes: soon while something moves, hardly ever when settled.

Watches bring every change of a Kubernetes object; only what has no watch (a pod's facts, mount events, other
namespaces' GPUs) is polled, and slower the longer it lasts. A settled service's license is looked at now and then:
it may end, its server be gone, or no pod have reported it yet; so is a Gateway API that may be installed later. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass_api.objects.reading import seconds_between

from windlass_operator.status import conditions as c

MOVING_FIRST_S, MOVING_MAX_S = 3.0, 15.0
STUCK_S = 30.0
LICENSE_S = 5.0
SETTLED_S = 300.0
PENDING_S = 30.0  # replicas answer and none has reported its license yet
LICENSE_REASONS = (
    *("Unlicensed", "LicenseMissing", "LicenseLimitReached"),
    *("LicenseExpired", "LicenseServerUnreachable"),
)


def again_in_s(conditions: Iterable[Mapping[str, Any]], now: str, *, polled: bool = False) -> float | None:
    """Seconds until the next look, or None when only an event needs one.

    `polled`: its pods show figures while they serve.
    """
    rows = tuple(conditions)
    progressing, licensed = c.find(rows, c.PROGRESSING), c.find(rows, c.LICENSED)
    if progressing is None:
        return STUCK_S
    age_s = seconds_between(str(progressing["lastTransitionTime"]), now)
    if progressing["status"] == c.TRUE:
        return min(MOVING_MAX_S, max(MOVING_FIRST_S, age_s / 20))
    if progressing["reason"] == "Settled":
        if _waits_for_license(rows):
            return PENDING_S
        route = c.find(rows, c.ROUTE_READY)
        may_end = licensed is not None and licensed["reason"] in ("LicenseGranted", "LicenseExpiring")
        may_come = route is not None and route["reason"] == "GatewayApiMissing"
        return SETTLED_S if may_end or may_come or polled else None
    return min(STUCK_S, max(LICENSE_S, age_s / 60)) if progressing["reason"] in LICENSE_REASONS else STUCK_S


def _waits_for_license(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether replicas answer whose license is not known: no event brings it."""
    licensed, works = c.find(rows, c.LICENSED), c.find(rows, c.WORKLOAD_READY)
    pending = licensed is not None and licensed["reason"] == "LicensePending"
    return pending and works is not None and works["status"] == c.TRUE
