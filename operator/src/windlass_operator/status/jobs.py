"""What a Job and its pod say of their end; the inspection and the download are both read so. Pure."""

from __future__ import annotations

from datetime import datetime

from windlass_operator.records.pods import Pod, Terminated
from windlass_operator.records.workloads import Job


def terminated(pod: Pod) -> Terminated | None:
    """How the pod's first container that has ended did so; None while all run."""
    return next((row.state.terminated for row in pod.status.container_statuses if row.state.terminated), None)


def made_at(job: Job) -> str:
    """When the Job was made, RFC 3339."""
    return job.metadata.creation_timestamp


def given_up(job: Job) -> str:
    """When the Job controller ended it, RFC 3339; empty while it has not."""
    rows = (job.condition("Failed"), job.condition("Complete"))
    return next((row.last_transition_time or made_at(job) for row in rows if row and row.holds), "")


def instant(text: str) -> str:
    """The time if it is one with its zone (RFC 3339); else empty."""
    try:
        return text if datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo else ""
    except ValueError:
        return ""
