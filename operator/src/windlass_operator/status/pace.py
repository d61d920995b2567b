"""How soon one LLMService is looked at again when no event comes: soon while something moves, never when settled.

Watches bring every change of a Kubernetes object; only what has no watch (a pod's facts, mount events, other
namespaces' GPUs) is polled, and slower the longer it lasts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass_operator.status import conditions as c
from windlass_operator.status.children import seconds_between

MOVING_FIRST_S, MOVING_MAX_S = 3.0, 15.0
STUCK_S = 30.0
LICENSE_S = 5.0
LICENSE_REASONS = ("Unlicensed", "LicenseExpired", "LicenseServerUnreachable")


def again_in_s(conditions: Iterable[Mapping[str, Any]], now: str) -> float | None:
    """Seconds until the next look, or None when only an event needs one."""
    progressing = c.find(conditions, c.PROGRESSING)
    if progressing is None:
        return STUCK_S
    if progressing["status"] == c.TRUE:
        age_s = seconds_between(str(progressing["lastTransitionTime"]), now)
        return min(MOVING_MAX_S, max(MOVING_FIRST_S, age_s / 20))
    if progressing["reason"] == "Settled":
        return None
    return LICENSE_S if progressing["reason"] in LICENSE_REASONS else STUCK_S
