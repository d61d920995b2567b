"""What a Job and its pod say of their end; the inspection and the download are both read so. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from windlass_api.objects.reading import seconds_between

from windlass_operator.records.pods import Event, Pod, Terminated
from windlass_operator.records.workloads import Job
from windlass_operator.status.admission import creation_refused
from windlass_operator.status.failure import Failure

RETRY_FIRST_S = 60.0
BY_ITS_SIZE = ("QuotaExceeded", "LimitRangeExceeded")
"""Reasons of a refused pod that other requests and limits may mend."""


def terminated(pod: Pod, container: str) -> Terminated | None:
    """How the Job's own container ended; None while it runs. Others, as a mesh's proxy, say nothing of the Job."""
    rows = (row for row in pod.status.container_statuses if row.name == container)
    return next((row.state.terminated for row in rows if row.state.terminated), None)


def held_open(pods: Iterable[Pod], container: str) -> bool:
    """Whether another container of a pod runs on after the Job's own ended: an injected one may never end.

    A pod is called running for a moment after its last container ended; nothing holds that one open.
    """
    return any(terminated(pod, container) and _runs_beside(pod, container) for pod in pods)


def _runs_beside(pod: Pod, container: str) -> bool:
    rows = (row for row in pod.status.container_statuses if row.name != container)
    return pod.status.phase == "Running" and any(row.state.terminated is None for row in rows)


def refused(job: Job, pods: Iterable[Pod], events: Iterable[Event], resources: str) -> Failure | None:
    """The API server's refusal of the Job's pods; `resources` is the chart's value by which they ask for less."""
    failure = creation_refused(job, events, pods)
    if failure is None or failure.reason not in BY_ITS_SIZE:
        return failure
    return replace(
        failure, message=f"{failure.message.rstrip('. ;')}; the chart's value {resources} says what it asks for"
    )


def made_at(job: Job) -> str:
    """When the Job was made, RFC 3339."""
    return job.metadata.creation_timestamp


def given_up(job: Job) -> str:
    """When the Job controller ended it, RFC 3339; empty while it has not.

    A Job that is suspended after its start is over: its pods were ended once its finding was kept. One that never
    started waits for a queue, as Kueue's.
    """
    suspended = job.condition("Suspended") if job.status.start_time else None
    rows = (job.condition("Failed"), job.condition("Complete"), suspended)
    return next((row.last_transition_time or made_at(job) for row in rows if row and row.holds), "")


def instant(text: str) -> str:
    """The time if it is one with its zone (RFC 3339); else empty."""
    try:
        return text if datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo else ""
    except ValueError:
        return ""


def again_in_s(finished_at: str, failing_since: str, now: str, most_s: float) -> float:
    """Seconds until a failed Job is made anew: the wait grows with the time that its condition has been failing.

    An annotation may keep `finished_at`. One that is missing, or yet to come, counts as the beginning of the failing.
    """
    if not finished_at or seconds_between(now, finished_at):
        finished_at = failing_since or now
    wait_s = min(most_s, max(RETRY_FIRST_S, seconds_between(failing_since or finished_at, finished_at)))
    return max(0.0, wait_s - seconds_between(finished_at, now))
