"""Pods without a node: the scheduler's words brought to one reason, and beside them what the pod asks for.

The scheduler names the filter that each node failed at, not what the pod wanted. The rows stand in the reverse order of
its filters: the node that came furthest tells what is missing, not the one that never was a candidate. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from windlass_api.objects.reading import seconds_between

from windlass_operator.records.pods import Event, Pod, Quantity
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
PREEMPTION, DEALLOCATION, ENDS = "preemption: ", "no new claims to deallocate", " .,;"
"""The end of the scheduler's words, about pods that it might end: a reader can do nothing with it."""
MISSING = re.compile(r"(?:[.,;] not found)+$")
"""The scheduler's own end behind a sentence about a claim, which says so itself."""
SHORT = re.compile(r"Insufficient ([\w./-]*\w)")
SILENT_S = 7.0  # a scheduler says something about every pod within a second or two


CLAIM_EVENTS = ("ProvisioningFailed", "FailedBinding", "ExternalProvisioning")


def unscheduled(pod: Pod, now: str, events: Iterable[Event] = ()) -> Failure | None:
    """Why the pod has no node; `now` is empty where the time is not known."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is None:
        return _unseen(pod, now)
    if scheduled.status != "False" or scheduled.reason not in ("Unschedulable", "SchedulerError"):
        return None
    words = cut(_readable(scheduled.message) or "the scheduler gave no reason")
    reason = next((reason for pattern, reason in SCHEDULER_WORDS if pattern.search(words)), "Unschedulable")
    request = REQUESTS[reason](pod, words) if reason in REQUESTS else ""
    claim = _of_claims(pod, events) if reason == "VolumeMissing" else ""
    if claim:
        reason = next((reason for pattern, reason in CLAIM_WORDS if pattern.search(claim)), reason)
        words = f"{words}: {claim}"
    return Failure(
        reason, f"pod {pod.name} cannot be scheduled: {words}{f'; it asks for {request}' if request else ''}"
    )


def _readable(words: str) -> str:
    first = words.partition(PREEMPTION)[0].rstrip(ENDS).removesuffix(DEALLOCATION).rstrip(ENDS)
    return MISSING.sub("", first)


def _of_claims(pod: Pod, events: Iterable[Event]) -> str:
    """The last words about a claim of the pod."""
    mine = claims(pod)
    rows = [
        event.message
        for event in events
        if event.reason in CLAIM_EVENTS
        and event.involved_object.kind == "PersistentVolumeClaim"
        and event.involved_object.name in mine
    ]
    return cut(rows[-1]) if rows else ""


def _unseen(pod: Pod, now: str) -> Failure | None:
    since = pod.metadata.creation_timestamp
    if not now or not since or pod.spec.node_name or pod.status.phase not in ("", "Pending"):
        return None
    if seconds_between(since, now) < SILENT_S or pod.spec.scheduling_gates:
        return None
    who = pod.spec.scheduler_name or "default-scheduler"
    return Failure("SchedulerMissing", f'pod {pod.name}: no scheduler named "{who}" has looked at it')


def claims(pod: Pod) -> list[str]:
    """The claims that the pod mounts."""
    sources = (row.persistent_volume_claim for row in pod.spec.volumes)
    return sorted({one.claim_name for one in sources if one})


def _claims(pod: Pod, words: str) -> str:
    """The claims, unless the words name each already."""
    names = claims(pod)
    if all(f'"{name}"' in words for name in names):
        return ""
    return f"claim{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _requests(pod: Pod, words: str) -> str:
    """Requests of the pod for the resources that nodes are short of."""
    short = SHORT.findall(words)
    asked: dict[str, Quantity] = {}
    for row in pod.spec.containers:
        asked |= row.resources.limits | row.resources.requests
    return ", ".join(f"{key} {value}" for key, value in sorted(asked.items()) if key in short or not short)


def _labels(pod: Pod, _words: str) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(pod.spec.node_selector.items()))


REQUESTS: Mapping[str, Callable[[Pod, str], str]] = {
    "VolumeMissing": _claims,
    "VolumeElsewhere": _claims,
    "InsufficientGpus": _requests,
    "InsufficientMemory": _requests,
    "InsufficientCpu": _requests,
    "DiskFull": _requests,
    "NoMatchingNode": _labels,
}
