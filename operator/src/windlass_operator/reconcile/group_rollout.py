"""Group rollout: which pods of groups are ended now, so that a replica changes as a whole. Pure.

Kubernetes would replace a StatefulSet's pods one by one, and members of two templates cannot serve together. So nothing
replaces them by itself (`OnDelete`), and `reconciler.py` ends all old pods of a replica at once: of one that does not
answer at any time, of those that answer one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass_api.objects.reading import Object, dig, is_leaving, is_ready, name_of, owned_by, uid_of

REVISION_LABEL = "controller-revision-hash"  # Kubernetes' own, of a StatefulSet's pods


@dataclass(frozen=True, slots=True)
class Replica:
    """One StatefulSet and its pods."""

    live: Object
    pods: tuple[Object, ...]

    @property
    def answers(self) -> bool:
        """Whether all members are there and ready."""
        up = [pod for pod in self.pods if is_ready(pod) and not _is_going(pod)]
        return len(up) == (dig(self.live, "spec", "replicas") or 0)

    @property
    def old(self) -> tuple[Object, ...]:
        """Pods of an earlier template; none while Kubernetes has not looked at the present one yet."""
        status, generation = self.live.get("status") or {}, dig(self.live, "metadata", "generation")
        revision = status.get("updateRevision")
        if not revision or (status.get("observedGeneration") or 0) < (generation or 0):
            return ()
        return tuple(pod for pod in self.pods if dig(pod, "metadata", "labels", REVISION_LABEL) != revision)


def to_end(sets: Iterable[Object], pods: Iterable[Object]) -> tuple[Object, ...]:
    """The pods to be deleted now: all old ones of a replica at once, and at most one replica that answers is ended."""
    pods = tuple(pods)
    replicas = [Replica(one, owned_by(pods, uid_of(one))) for one in sorted(sets, key=name_of)]
    behind = [one for one in replicas if one.old]
    down = [one for one in behind if not one.answers]
    away = any(not one.answers for one in replicas)
    turn = down or ([] if away else behind[:1])
    return tuple(pod for one in turn for pod in one.old if not _is_going(pod))


def _is_going(pod: Object) -> bool:
    return is_leaving(pod)
