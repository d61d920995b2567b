"""Conditions as Kubernetes wants them: a change of status moves lastTransitionTime, a change of words does not.

Pure: the time is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.status import reasons

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
READY, MODEL_READY, PLANNED = "Ready", "ModelReady", "Planned"
LICENSED, WORKLOAD_READY, ROUTE_READY = "Licensed", "WorkloadReady", "RouteReady"
DOWNLOADING, DEGRADED, PROGRESSING = "Downloading", "Degraded", "Progressing"
OUTDATED, OLDER_FIELDS = "Outdated", "OlderFields"  # there only while they are True
GATES = (MODEL_READY, PLANNED, LICENSED, WORKLOAD_READY, ROUTE_READY)  # in the order in which they become true
ALWAYS = (READY, DOWNLOADING, *GATES, DEGRADED, PROGRESSING)
TYPES = (*ALWAYS, OUTDATED, OLDER_FIELDS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one condition says; `reason` is a word of the closed table."""

    status: str
    reason: str
    message: str = ""

    def __post_init__(self) -> None:
        reasons.row(self.reason)  # a word outside the table is our bug and shall show at once


def yes(reason: str, message: str = "") -> Verdict:
    """The condition holds."""
    return Verdict(TRUE, reason, message or reasons.row(reason).meaning)


def no(reason: str, message: str = "") -> Verdict:
    """The condition does not hold; the remedy is added to the message."""
    return Verdict(FALSE, reason, reasons.explain(reason, message or reasons.row(reason).meaning))


def trouble(reason: str, message: str = "") -> Verdict:
    """A condition that is bad when it holds; the remedy is added to the message."""
    return Verdict(TRUE, reason, reasons.explain(reason, message or reasons.row(reason).meaning))


def unknown(reason: str, message: str = "") -> Verdict:
    """It cannot be told yet."""
    return Verdict(UNKNOWN, reason, message or reasons.row(reason).meaning)


def find(conditions: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The condition of that type, or None."""
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def merge(
    previous: Iterable[Mapping[str, Any]], verdicts: Mapping[str, Verdict], generation: int, now: str
) -> list[dict[str, Any]]:
    """The new list of conditions in the fixed order of TYPES; `now` is RFC 3339."""
    before = {condition.get("type"): condition for condition in previous}
    return [
        _condition(type_, verdicts[type_], before.get(type_), generation, now) for type_ in TYPES if type_ in verdicts
    ]


def _condition(
    type_: str, verdict: Verdict, before: Mapping[str, Any] | None, generation: int, now: str
) -> dict[str, Any]:
    same = before is not None and before.get("status") == verdict.status
    return {
        "type": type_,
        "status": verdict.status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": before["lastTransitionTime"] if same and before is not None else now,
        "observedGeneration": generation,
    }
