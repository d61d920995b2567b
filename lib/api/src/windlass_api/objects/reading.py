"""What everybody asks of a Kubernetes object: its name, its owner, its conditions. Pure.

Kubernetes objects stay the dicts that the API server sent; everything said about them is typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Object = Mapping[str, Any]


def dig(value: Object | None, *path: str) -> Any:  # noqa: ANN401 - a Kubernetes object holds any JSON
    """The value at the path inside nested mappings; None when a step is missing."""
    for step in path:
        if type(value) is not dict and not isinstance(value, Mapping):  # asking for the abstract class is slow
            return None
        value = value.get(step)
    return value


def annotation_of(item: Object | None, key: str) -> str:
    """An annotation's text; empty where there is none."""
    return str(dig(item, "metadata", "annotations", key) or "")


def name_of(item: Object) -> str:
    """metadata.name."""
    return str(dig(item, "metadata", "name") or "")


def uid_of(item: Object | None) -> str:
    """metadata.uid; empty for an object that is not there."""
    return str(dig(item, "metadata", "uid") or "")


def controller_uid(item: Object) -> str | None:
    """The uid of the owner that controls the object."""
    owners = dig(item, "metadata", "ownerReferences") or ()
    return next((str(owner.get("uid")) for owner in owners if owner.get("controller")), None)


def condition_of(item: Object, type_: str) -> Object | None:
    """A condition of a built-in object's status."""
    rows = dig(item, "status", "conditions") or ()
    return next((row for row in rows if row.get("type") == type_), None)


def is_ready(pod: Object) -> bool:
    """Whether the kubelet calls the pod ready."""
    row = condition_of(pod, "Ready")
    return row is not None and row.get("status") == "True"


def newest_first(items: Iterable[Object]) -> list[Object]:
    """By creation time, then by name, so that the order never depends on the API server."""
    return sorted(
        items, key=lambda item: (dig(item, "metadata", "creationTimestamp") or "", name_of(item)), reverse=True
    )


def is_leaving(item: Object) -> bool:
    """Whether somebody has asked for its deletion."""
    return dig(item, "metadata", "deletionTimestamp") is not None


def living(pods: Iterable[Object]) -> list[Object]:
    """Pods that are not being deleted, newest first."""
    return newest_first(pod for pod in pods if not is_leaving(pod))


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one RFC 3339 instant to another; never negative."""
    return max(0.0, (_instant(later) - _instant(earlier)).total_seconds())


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
