"""What a Job and its pod say of their end; the inspection and the download are both read so. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windlass_api.objects.reading import Object, condition_of, dig


def terminated(pod: Object) -> Mapping[str, Any] | None:
    """How the pod's first container that has ended did so; None while all run."""
    rows = dig(pod, "status", "containerStatuses") or ()
    return next((row["state"]["terminated"] for row in rows if dig(row, "state", "terminated")), None)


def made_at(job: Object) -> str:
    """When the Job was made, RFC 3339."""
    return str(dig(job, "metadata", "creationTimestamp") or "")


def given_up(job: Object) -> str:
    """When the Job controller ended it, RFC 3339; empty while it has not."""
    rows = (condition_of(job, "Failed"), condition_of(job, "Complete"))
    return next(
        (str(row.get("lastTransitionTime") or made_at(job)) for row in rows if row and row.get("status") == "True"), ""
    )


def instant(text: str) -> str:
    """The time if it is one with its zone (RFC 3339); else empty."""
    try:
        return text if datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo else ""
    except ValueError:
        return ""
