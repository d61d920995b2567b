"""How many replicas there are and answer: pods of a Deployment, or groups of pods, one StatefulSet a replica. Pure.

A replica over several nodes answers when its head and every member is ready: the head alone may still say 200 for a
minute after a member is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_operator.records.base import living, owned_by
from windlass_operator.records.pods import Pod
from windlass_operator.records.workloads import Deployment, StatefulSet, WorkloadStatus
from windlass_operator.status.children import Children

INDEX_LABEL = "apps.kubernetes.io/pod-index"
TOLD_MAX = 8
"""Members that are named in a message."""


@dataclass(frozen=True, slots=True)
class Group:
    """One replica over several nodes."""

    name: str
    size: int
    pods: tuple[Pod, ...]  # newest first

    @property
    def ready(self) -> bool:
        """Whether all members are there and ready."""
        return self.size > 0 and sum(pod.is_ready for pod in self.pods) >= self.size

    def waits_for(self) -> str:
        """The members that the others wait for, in words."""
        absent = sorted(set(range(self.size)) - {member(pod) for pod in self.pods if pod.is_ready})
        if not absent or len(absent) == self.size:
            return ""
        words = [f"{'member' if index else 'head'} {self.name}-{index}" for index in absent[:TOLD_MAX]]
        more = [f"{len(absent) - TOLD_MAX} more"] if len(absent) > TOLD_MAX else []
        return f"replica {self.name} waits for {', '.join([*words, *more])}"


@dataclass(frozen=True, slots=True)
class Replicas:
    """The counts that the status shows."""

    total: int = 0
    ready: int = 0
    old: int = 0  # of an earlier revision, as far as their controllers have looked
    waits: tuple[str, ...] = ()


def member(pod: Pod) -> int:
    """The pod's index in its group, 0 is the head; -1 when it has none."""
    text = pod.label(INDEX_LABEL) or pod.name.rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def groups(children: Children) -> tuple[Group, ...]:
    """The replicas over several nodes, by name."""
    rows = sorted(children.stateful_sets, key=lambda row: row.name)
    return tuple(Group(row.name, row.members, tuple(living(owned_by(children.pods, row.uid)))) for row in rows)


def count(children: Children) -> Replicas:
    """All replicas of the service; while it changes from one kind to the other, both kinds."""
    several = [group for group in groups(children) if group.size]
    one = children.deployment.status if children.deployment else WorkloadStatus()
    return Replicas(
        total=one.replicas + len(several),
        ready=one.ready_replicas + sum(group.ready for group in several),
        old=_old(children.deployment) + sum(_is_old(row, children) for row in children.stateful_sets if row.members),
        waits=tuple(words for group in several if (words := group.waits_for())),
    )


def rolling(children: Children) -> bool:
    """Whether pods of an older revision are still there, or a controller has not seen the last change."""
    if any(row.is_behind for row in children.makers) or _old(children.deployment):
        return True
    return any(_is_old(row, children) for row in children.stateful_sets)


def _old(deployment: Deployment | None) -> int:
    """Count pods of an earlier revision; none until the controller has looked at the change."""
    if deployment is None or deployment.is_behind:
        return 0
    return max(0, deployment.status.replicas - deployment.status.updated_replicas)


def _is_old(group: StatefulSet, children: Children) -> bool:
    """Whether a pod of the group is of an earlier revision."""
    return any(map(group.is_earlier, owned_by(children.pods, group.uid)))
