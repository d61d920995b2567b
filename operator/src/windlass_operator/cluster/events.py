"""Kubernetes Events about an LLMService, aggregated: the same words again raise a count instead of making a new one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from windlass_operator.cluster.kinds import Events
from windlass_operator.cluster.protocol import Cluster
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.status import reasons
from windlass_operator.status.notes import Note

COMPONENT = "windlass-operator"
COUNTDOWNS = frozenset({"LicenseExpiring"})  # reasons whose words change by themselves, and count when they do
MESSAGE_MAX = 1024  # the API server's own bound
CHANGING = re.compile(r"[\w.:/+-]*\d[\w.:/+-]*")  # names of pods, times, addresses, process ids, counts


def event_name(owner: Mapping[str, Any], note: Note) -> str:
    """The same words about the same object have the same name: that is the aggregation.

    Words that hold a digit do not count, so a crash loop whose log tells times and process ids stays one Event.
    """
    meta = owner["metadata"]
    words = CHANGING.sub("#", note.message)
    digest = hashlib.sha256("\0".join((meta["uid"], note.reason, words)).encode()).hexdigest()[:16]
    return f"{meta['name']}.{digest}"


def event(owner: Mapping[str, Any], note: Note, now: str, live: Mapping[str, Any] | None) -> Manifest:
    """The Event; where it happened before, counted once more."""
    meta = owner["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(owner, note), "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
        "type": reasons.row(note.reason).severity,
        "reason": note.reason,
        "message": note.message[:MESSAGE_MAX],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": (live or {}).get("firstTimestamp") or now,
        "lastTimestamp": now,
        "count": int((live or {}).get("count") or 0) + 1,
    }


async def record(cluster: Cluster, owner: Mapping[str, Any], note: Note, now: str) -> None:
    """Write the Event, or count it once more; a countdown counts once for each of its words."""
    if await cluster.create(event(owner, note, now, None)) is not None:
        return
    live = await cluster.get(Events, owner["metadata"]["namespace"], event_name(owner, note))
    if note.reason in COUNTDOWNS and live and live.get("message") == note.message[:MESSAGE_MAX]:
        return  # the condition changed and came back, as where a busy pod says nothing for a moment
    await cluster.apply(event(owner, note, now, live))
