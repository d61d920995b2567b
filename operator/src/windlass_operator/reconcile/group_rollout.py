"""Group rollout: which pods of groups are ended now, so that a replica changes as a whole. Pure.

Kubernetes would replace a StatefulSet's pods one by one, and members of two templates cannot serve together. So nothing
replaces them by itself (`OnDelete`), and `reconciler.py` ends all old pods of a replica at once: of one that does not
answer at any time, of those that answer one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass_operator.records.base import owned_by
from windlass_operator.records.pods import Pod
from windlass_operator.records.workloads import StatefulSet


@dataclass(frozen=True, slots=True)
class Replica:
    """One StatefulSet and its pods."""

    live: StatefulSet
    pods: tuple[Pod, ...]

    @property
    def answers(self) -> bool:
        """Whether all members are there and ready."""
        return sum(pod.is_ready and not pod.is_leaving for pod in self.pods) == self.live.spec.replicas

    @property
    def old(self) -> tuple[Pod, ...]:
        """Pods of an earlier template."""
        return tuple(filter(self.live.is_earlier, self.pods))


def to_end(sets: Iterable[StatefulSet], pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods to be deleted now: all old ones of a replica at once, and at most one replica that answers is ended."""
    pods = tuple(pods)
    replicas = [Replica(one, owned_by(pods, one.uid)) for one in sorted(sets, key=lambda one: one.name)]
    behind = [one for one in replicas if one.old]
    down = [one for one in behind if not one.answers]
    away = any(not one.answers for one in replicas)
    turn = down or ([] if away else behind[:1])
    return tuple(pod for one in turn for pod in one.old if not pod.is_leaving)
