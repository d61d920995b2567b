"""Pods without a node: the scheduler's words brought to one reason, and beside them what the pod asks for.

The scheduler names the filter that each node failed at, not what the pod wanted. The rows stand in the reverse order of
its filters: the node that came furthest tells what is missing, not the one that never was a candidate. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from windlass_api.objects.reading import Object, condition_of, dig, name_of, seconds_between

from windlass_operator.status.failure import Failure, cut


def _row(reason: str, *wordings: str) -> tuple[re.Pattern[str], str]:
    return re.compile("|".join(wordings), re.IGNORECASE), reason


SCHEDULER_WORDS = (
    _row(
        "VolumeMissing",
        r"persistentvolumeclaim .* not found",
        r"unbound immediate PersistentVolumeClaims",
        r"bound to non-existent",
    ),
    _row(
        "VolumeElsewhere",
        r"volume node affinity conflict",
        r"didn't match PersistentVolume's node affinity",
        r"no available volume zone",
    ),
    _row("InsufficientGpus", r"Insufficient nvidia\.com/(?:gpu|mig-)"),
    _row("InsufficientMemory", r"Insufficient memory"),
    _row("InsufficientCpu", r"Insufficient cpu"),
    _row("DiskFull", r"Insufficient ephemeral-storage"),
    _row("TooManyPods", r"Too many pods"),
    _row(
        "NoMatchingNode",
        r"didn't match Pod's node affinity",
        r"didn't satisfy (?:existing )?pods? (?:anti-)?affinity",
        r"didn't match pod (?:anti-affinity rules|affinity rules|topology spread)",
    ),
    _row("UntoleratedTaint", r"untolerated taint", r"were unschedulable"),
)
CLAIM_WORDS = (
    _row("StorageClassMissing", r"storageclass\S* \S+ not found"),
    _row("ProvisioningFailed", r"failed to provision", r"error getting claim reference", r"waiting for a volume"),
)
SILENT_S = 7.0  # a scheduler says something about every pod within a second or two


CLAIM_EVENTS = ("ProvisioningFailed", "FailedBinding", "ExternalProvisioning")


def unscheduled(pod: Object, now: str, events: Iterable[Object] = ()) -> Failure | None:
    """Why the pod has no node; `now` is empty where the time is not known."""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is None:
        return _unseen(pod, now)
    if scheduled.get("status") != "False" or scheduled.get("reason") not in ("Unschedulable", "SchedulerError"):
        return None
    words = cut(str(scheduled.get("message") or "the scheduler gave no reason")).rstrip(". ")
    reason = next((reason for pattern, reason in SCHEDULER_WORDS if pattern.search(words)), "Unschedulable")
    asked = ASKED[reason](pod) if reason in ASKED else ""
    told = _of_claims(pod, events) if reason == "VolumeMissing" else ""
    if told:
        reason = next((reason for pattern, reason in CLAIM_WORDS if pattern.search(told)), reason)
        words = f"{words}: {told}"
    return Failure(
        reason, f"pod {name_of(pod)} cannot be scheduled: {words}{f'; it asks for {asked}' if asked else ''}"
    )


def _of_claims(pod: Object, events: Iterable[Object]) -> str:
    """The last words about a claim of the pod."""
    mine = claims(pod)
    rows = [
        event
        for event in events
        if event.get("reason") in CLAIM_EVENTS
        and dig(event, "involvedObject", "kind") == "PersistentVolumeClaim"
        and dig(event, "involvedObject", "name") in mine
    ]
    return cut(str(rows[-1].get("message") or "")) if rows else ""


def _unseen(pod: Object, now: str) -> Failure | None:
    since = str(dig(pod, "metadata", "creationTimestamp") or "")
    if not now or not since or dig(pod, "spec", "nodeName") or dig(pod, "status", "phase") not in (None, "Pending"):
        return None
    if seconds_between(since, now) < SILENT_S or dig(pod, "spec", "schedulingGates"):
        return None
    who = dig(pod, "spec", "schedulerName") or "default-scheduler"
    return Failure("SchedulerMissing", f'pod {name_of(pod)}: no scheduler named "{who}" has looked at it')


def claims(pod: Object) -> list[str]:
    """The claims that the pod mounts."""
    rows = dig(pod, "spec", "volumes") or ()
    names = (dig(row, "persistentVolumeClaim", "claimName") for row in rows)
    return sorted({str(name) for name in names if name})


def _claims(pod: Object) -> str:
    names = claims(pod)
    return f"claim{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _requests(pod: Object) -> str:
    rows = [
        dig(row, "resources", kind) or {}
        for row in dig(pod, "spec", "containers") or ()
        for kind in ("limits", "requests")
    ]
    asked = {str(key): str(value) for row in rows for key, value in row.items()}
    return ", ".join(f"{key} {value}" for key, value in sorted(asked.items()))


def _labels(pod: Object) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted((dig(pod, "spec", "nodeSelector") or {}).items()))


ASKED: Mapping[str, Callable[[Object], str]] = {
    "VolumeMissing": _claims,
    "VolumeElsewhere": _claims,
    "InsufficientGpus": _requests,
    "InsufficientMemory": _requests,
    "InsufficientCpu": _requests,
    "DiskFull": _requests,
    "NoMatchingNode": _labels,
}
