"""How many replicas there are and answer: pods of a Deployment, or groups of pods, one StatefulSet a replica. Pure.

A replica over several nodes answers when its head and every member is ready: the head alone may still say 200 for a
minute after a member is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass_api.objects.reading import Object, dig, is_ready, living, name_of, owned_by, uid_of

from windlass_operator.status.children import Children

INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Group:
    """One replica over several nodes."""

    name: str
    size: int
    pods: tuple[Object, ...]  # newest first

    @property
    def ready(self) -> bool:
        """Whether all members are there and ready."""
        return self.size > 0 and sum(is_ready(pod) for pod in self.pods) >= self.size

    def waits_for(self) -> str:
        """The members that the others wait for, in words."""
        there = {member(pod) for pod in self.pods if is_ready(pod)}
        absent = [
            f"{'head' if index == 0 else 'member'} {self.name}-{index}"
            for index in range(self.size)
            if index not in there
        ]
        return f"replica {self.name} waits for {', '.join(absent)}" if absent and len(absent) < self.size else ""


@dataclass(frozen=True, slots=True)
class Replicas:
    """The counts that the status shows."""

    total: int = 0
    ready: int = 0
    waits: tuple[str, ...] = ()


def member(pod: Object) -> int:
    """The pod's index in its group, 0 is the head; -1 when it has none."""
    text = str(dig(pod, "metadata", "labels", INDEX_LABEL) or name_of(pod).rpartition("-")[2])
    return int(text) if text.isdecimal() else -1


def groups(children: Children) -> tuple[Group, ...]:
    """The replicas over several nodes, by name."""
    rows = sorted(children.stateful_sets, key=name_of)
    return tuple(
        Group(name_of(row), _number(row, "spec", "replicas"), tuple(living(owned_by(children.pods, uid_of(row)))))
        for row in rows
    )


def count(children: Children) -> Replicas:
    """All replicas of the service; while it changes from one kind to the other, both kinds."""
    several = [group for group in groups(children) if group.size]
    one = children.deployment
    return Replicas(
        total=_number(one, "status", "replicas") + len(several),
        ready=_number(one, "status", "readyReplicas") + sum(group.ready for group in several),
        waits=tuple(words for group in several if (words := group.waits_for())),
    )


def rolling(children: Children) -> bool:
    """Whether pods of an older revision are still there, or a controller has not seen the last change."""
    return _moves(children.deployment, "updatedReplicas") or any(
        _behind(row) or _older(row, owned_by(children.pods, uid_of(row))) for row in children.stateful_sets
    )


def _moves(deployment: Object | None, key: str) -> bool:
    if deployment is None:
        return False
    return _behind(deployment) or _number(deployment, "status", key) < _number(deployment, "status", "replicas")


def _older(group: Object, pods: Iterable[Object]) -> bool:
    wanted = dig(group, "status", "updateRevision")
    return any(dig(pod, "metadata", "labels", "controller-revision-hash") not in (None, wanted) for pod in pods)


def _behind(row: Object) -> bool:
    return _number(row, "status", "observedGeneration") < _number(row, "metadata", "generation")


def _number(row: Object | None, *path: str) -> int:
    return int(dig(row, *path) or 0)
