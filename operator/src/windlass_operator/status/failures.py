"""Why pods do not run: each cause is one small function, CHECKS is their order, `diagnose` is whose words are told.

Pure; the rows of words are in scheduling.py, kubelet.py, crashes.py and signatures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass_operator.records.base import living
from windlass_operator.records.pods import Event, Pod, Terminated
from windlass_operator.records.workloads import StatefulSet
from windlass_operator.status.admission import creation_refused, rollout_stuck
from windlass_operator.status.children import Children
from windlass_operator.status.crashes import crash, ended, members_lost
from windlass_operator.status.failure import Failure
from windlass_operator.status.kubelet import (
    containers,
    disrupted,
    no_sandbox,
    not_answering,
    not_mounted,
    probe_killed,
    stuck_creating,
    stuck_terminating,
    waiting,
)
from windlass_operator.status.replicas import groups, member
from windlass_operator.status.scheduling import unscheduled

__all__ = ["Failure", "creation_refused", "diagnose", "diagnose_service", "last_crash"]

Check = Callable[[Pod, tuple[Event, ...], str], Failure | None]


def _unscheduled(pod: Pod, events: tuple[Event, ...], now: str) -> Failure | None:
    return unscheduled(pod, now, events)


def _crashed(pod: Pod, _events: tuple[Event, ...], _now: str) -> Failure | None:
    for init, container in containers(pod):
        last = ended(container)
        if last is not None:
            return crash(pod, container, last, init)
    return None


def _killed_by_probe(pod: Pod, events: tuple[Event, ...], now: str) -> Failure | None:
    """A probe's kill looks like a crash by signal; only a container that said why it ended ended by itself."""
    killed, crashed = probe_killed(pod, events, now), _crashed(pod, events, now)
    by_itself = crashed is not None and (crashed.exit_code not in (0, 137, 143) or crashed.reason == "OutOfMemory")
    return None if killed is None or by_itself else killed


CHECKS: tuple[Check, ...] = (
    *(_unscheduled, disrupted, waiting, _killed_by_probe, _crashed),
    *(no_sandbox, not_mounted, not_answering, stuck_creating),
)


def diagnose(pods: Iterable[Pod], events: Iterable[Event], now: str = "") -> Failure | None:
    """The failure of the newest pod that is not ready and has one; pods that are over tell theirs last."""
    events = tuple(events)
    rows = sorted(living(pods), key=lambda pod: pod.is_over)
    return next((found for pod in rows if not pod.is_ready and (found := _first(pod, events, now)) is not None), None)


def _first(pod: Pod, events: tuple[Event, ...], now: str) -> Failure | None:
    return next((failure for check in CHECKS if (failure := check(pod, events, now)) is not None), None)


def diagnose_service(children: Children, settled: bool, now: str) -> Failure | None:
    """The one failure that the service tells; when all replicas answer, pods that are over tell nothing any more."""
    pods = [pod for pod in children.pods if not settled or not pod.is_over]
    found = _refused(children) or _of_groups(children, now) or diagnose(pods, children.events, now)
    if found is not None or settled:
        return found
    stuck = (stuck_terminating(pod, now) for pod in children.pods)
    return next((one for one in stuck if one is not None), None) or rollout_stuck(children.deployment)


def _refused(children: Children) -> Failure | None:
    own = creation_refused(children.deployment)
    if own is not None:
        return own
    rows = ((row, [pod for pod in children.pods if _is_of(pod, row)]) for row in children.stateful_sets)
    found = (creation_refused(row, children.events, pods) for row, pods in rows)
    return next((one for one in found if one is not None), None)


def _is_of(pod: Pod, group: StatefulSet) -> bool:
    return pod.name.rpartition("-")[0] == group.name


def _of_groups(children: Children, now: str) -> Failure | None:
    """The first cause in the first group that fails: the member that ended by itself, not those that ended with it."""
    for group in groups(children):
        failed = [
            (pod, found) for pod in group.pods if not pod.is_ready and (found := _first(pod, children.events, now))
        ]
        if failed:
            return _root(failed)
    return None


def _root(failed: list[tuple[Pod, Failure]]) -> Failure:
    """Follow who names whom; where all only name others, the one that is named by a pod that says so."""
    by_itself = [(pod, one) for pod, one in failed if one.reason not in ("MemberLost", "GroupIncomplete")]
    if by_itself:
        return min(by_itself, key=lambda row: (_when(row[0]), member(row[0])))[1]
    pod, first = min(failed, key=lambda row: (_when(row[0]), member(row[0])))
    lost = members_lost(first, _text(pod))
    if not lost:
        return first
    whom = ", ".join("head" if index == 0 else f"member {index}" for index in lost)
    return Failure(
        first.reason, f"{first.message}; it waits for {whom}" if first.reason == "GroupIncomplete"
        else f"{first.message}; {whom} went first", first.container, first.exit_code, first.excerpt, first.count,
    )  # fmt: skip


def _end(pod: Pod) -> Terminated:
    return next((one for _, container in containers(pod) if (one := ended(container))), Terminated())


def _text(pod: Pod) -> str:
    return _end(pod).message


def _when(pod: Pod) -> str:
    """When the pod's container ended; a pod that never ran has been failing from the start."""
    return _end(pod).finished_at


def last_crash(pods: Iterable[Pod]) -> Failure | None:
    """The last crash of a pod that serves again: worth telling, though nothing is wrong now."""
    return next((found for pod in living(pods) if (found := _crashed(pod, (), "")) is not None), None)
