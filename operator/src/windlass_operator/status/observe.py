"""The whole status of an LLMService, from what was read: conditions, plan, failure, start-up, addresses.

`observe` is a function of values; reconcile.py calls it once a run and writes the result only when it differs.
Ready is True exactly while a replica answers; otherwise its reason is that of the first gate that is shut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass_operator.status import conditions as c
from windlass_operator.status import facts as pod_facts
from windlass_operator.status.children import Children, Object, dig, living
from windlass_operator.status.conditions import Verdict
from windlass_operator.status.facts import PodFacts
from windlass_operator.status.failures import Failure, creation_refused, diagnose, last_crash
from windlass_operator.status.inspection import WAITING, Inspection, State

MESSAGE_MAX = 4096
PORT = 8501


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom the status is about: the parts of the LLMService that the status needs."""

    name: str
    namespace: str
    generation: int
    replicas: int
    license_required: bool
    previous: Mapping[str, Any] = field(default_factory=dict)

    @property
    def previous_conditions(self) -> list[Mapping[str, Any]]:
        """The conditions that are written now."""
        return list(self.previous.get("conditions") or ())


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the cluster found."""

    children: Children = field(default_factory=Children)
    facts: tuple[PodFacts, ...] = ()
    inspection: Inspection = WAITING
    planned: Verdict = field(default_factory=lambda: c.unknown("Planning"))
    plan: Mapping[str, Any] | None = None  # status.plan
    selector: str = ""


def observe(subject: Subject, seen: Seen, now: str) -> dict[str, Any]:
    """The new status; `now` is RFC 3339."""
    failure = creation_refused(seen.children.deployment) or diagnose(seen.children.pods, seen.children.events)
    verdicts = _verdicts(subject, seen, failure, now)
    told = failure or _inspect_failure(seen.inspection) or last_crash(seen.children.pods)
    ready = _ready_replicas(seen)
    status: dict[str, Any] = {
        "observedGeneration": subject.generation,
        "conditions": c.merge(subject.previous_conditions, _cut(verdicts), subject.generation, now),
        "plan": seen.plan or (subject.previous.get("plan") if seen.children.deployment else None),
        "startup": pod_facts.startup(seen.facts) or subject.previous.get("startup"),
        "failure": told.to_status() if told else _remembered_failure(subject, seen, verdicts),
        "replicas": _count(seen.children.deployment, "replicas"),
        "readyReplicas": ready,
        "ready": f"{ready}/{subject.replicas}",
        "selector": seen.selector,
        "addresses": _addresses(subject, seen),
    }
    return {key: value for key, value in status.items() if value is not None}


def rejected(subject: Subject, reason: str, message: str, now: str) -> dict[str, Any]:
    """The status of a resource that cannot be used as written: what runs stays, and the words say why."""
    verdicts = {c.READY: c.no(reason, message), c.PROGRESSING: c.no(reason, message)}
    kept = {
        str(row["type"]): Verdict(str(row["status"]), str(row["reason"]), str(row.get("message") or ""))
        for row in subject.previous_conditions
        if row.get("type") not in verdicts
    }
    if (subject.previous.get("readyReplicas") or 0) > 0:
        verdicts[c.READY] = c.yes("PartlyReady", f"an earlier spec is served; {verdicts[c.PROGRESSING].message}")
    merged = c.merge(subject.previous_conditions, _cut({**kept, **verdicts}), subject.generation, now)
    return {**subject.previous, "observedGeneration": subject.generation, "conditions": merged}


def _verdicts(subject: Subject, seen: Seen, failure: Failure | None, now: str) -> dict[str, Verdict]:
    gates = {
        c.MODEL_READY: _model_ready(subject, seen.inspection),
        c.PLANNED: _planned(subject, seen),
        c.LICENSED: _licensed(subject, seen, now),
        c.WORKLOAD_READY: _workload_ready(subject, seen, failure),
    }
    return {c.READY: _ready(subject, seen, gates), **gates, c.PROGRESSING: _progressing(subject, seen, gates, failure)}


def _model_ready(subject: Subject, inspection: Inspection) -> Verdict:
    """While an inspection runs again for the same spec, what it found last stays: the words do not flicker."""
    if inspection.state is State.FOUND:
        return c.yes("ModelFound", inspection.message)
    if inspection.state in (State.FAILED, State.STUCK):
        return c.no(inspection.reason, inspection.message)
    before = c.find(subject.previous_conditions, c.MODEL_READY)
    if before and before.get("status") != c.UNKNOWN and before.get("observedGeneration") == subject.generation:
        return Verdict(str(before["status"]), str(before["reason"]), str(before.get("message") or ""))
    return c.unknown("Inspecting", inspection.message)


def _planned(subject: Subject, seen: Seen) -> Verdict:
    """Without a finding there is nothing to plan; a plan of the same spec stays in force meanwhile."""
    if seen.inspection.state is State.FOUND:
        return seen.planned
    before = c.find(subject.previous_conditions, c.PLANNED)
    if before and before.get("status") == c.TRUE and before.get("observedGeneration") == subject.generation:
        return Verdict(c.TRUE, str(before["reason"]), str(before.get("message") or ""))
    return c.unknown("Planning", "waits for the model's facts")


def _licensed(subject: Subject, seen: Seen, now: str) -> Verdict:
    """While no pod answers, what the same pods said last stays: the words do not flicker."""
    if not subject.license_required:
        return c.yes("LicenseNotRequired")
    told = pod_facts.license_verdict(seen.facts, now)
    if told is not None:
        return told
    before = c.find(subject.previous_conditions, c.LICENSED)
    if before and before.get("status") == c.TRUE and _ready_replicas(seen):
        return Verdict(c.TRUE, str(before["reason"]), str(before.get("message") or ""))
    same = before and before.get("status") == c.FALSE and before.get("observedGeneration") == subject.generation
    if before and same and living(seen.children.pods):
        return Verdict(c.FALSE, str(before["reason"]), str(before.get("message") or ""))
    return c.unknown("LicensePending")


def _workload_ready(subject: Subject, seen: Seen, failure: Failure | None) -> Verdict:
    ready = _ready_replicas(seen)
    if subject.replicas == 0:
        return Verdict(c.FALSE, "ScaledToZero", "spec.replicas is 0")
    if ready >= subject.replicas:
        return c.yes("Running", f"{ready} of {subject.replicas} replicas answer")
    if failure is not None:
        return c.no(failure.reason, failure.message)
    if seen.planned.status != c.TRUE and seen.children.deployment is None:
        return c.unknown("Planning", "waits for the plan")
    doing = "; ".join(sorted({one.doing() for one in seen.facts})) or "the pods start"
    return Verdict(c.FALSE, "Starting", f"{ready} of {subject.replicas} replicas answer; {doing}")


def _ready(subject: Subject, seen: Seen, gates: Mapping[str, Verdict]) -> Verdict:
    ready = _ready_replicas(seen)
    shut = _shut_gate(gates)
    if ready == 0 or subject.replicas == 0:
        shut = gates[c.WORKLOAD_READY] if shut is None or subject.replicas == 0 else shut
        return Verdict(c.FALSE, shut.reason, shut.message)
    message = f"{ready} of {subject.replicas} replicas answer"
    held_up = next((gates[t] for t in (c.MODEL_READY, c.PLANNED) if gates[t].status == c.FALSE), None)
    if held_up is not None:
        message = f"{message}, of an earlier spec; the change is not in force: {held_up.message}"
    elif shut is not None and shut.status == c.FALSE and ready < subject.replicas:
        message = gates[c.WORKLOAD_READY].message
    return c.yes("Running" if ready >= subject.replicas else "PartlyReady", message)


def _shut_gate(gates: Mapping[str, Verdict]) -> Verdict | None:
    """The first gate that is False tells more than one that is not known yet."""
    shut = [gates[type_] for type_ in c.GATES if gates[type_].status != c.TRUE]
    return next((one for one in shut if one.status == c.FALSE), shut[0] if shut else None)


def _progressing(subject: Subject, seen: Seen, gates: Mapping[str, Verdict], failure: Failure | None) -> Verdict:
    """Whether anything is under way by itself; what waits for a person is False with the reason."""
    for type_ in (c.MODEL_READY, c.PLANNED):
        if gates[type_].status == c.FALSE:
            return Verdict(c.FALSE, gates[type_].reason, gates[type_].message)
    if failure is not None:
        return c.no(failure.reason, failure.message)
    if seen.inspection.state is State.RUNNING:
        return c.yes("Inspecting")
    if gates[c.LICENSED].status == c.FALSE:
        return Verdict(c.FALSE, gates[c.LICENSED].reason, gates[c.LICENSED].message)
    if gates[c.WORKLOAD_READY].status != c.TRUE and subject.replicas > 0:
        return c.yes("Starting")
    return c.yes("RollingOut") if _rolling(seen.children.deployment) else c.no("Settled")


def _rolling(deployment: Object | None) -> bool:
    """Whether pods of an older revision are still there, or the controller has not seen the last change."""
    if deployment is None:
        return False
    behind = (dig(deployment, "status", "observedGeneration") or 0) < (dig(deployment, "metadata", "generation") or 0)
    return behind or _count(deployment, "updatedReplicas") < _count(deployment, "replicas")


def _ready_replicas(seen: Seen) -> int:
    return _count(seen.children.deployment, "readyReplicas")


def _count(deployment: Object | None, key: str) -> int:
    return int(dig(deployment, "status", key) or 0)


def _inspect_failure(inspection: Inspection) -> Failure | None:
    if inspection.state not in (State.FAILED, State.STUCK):
        return None
    return Failure(inspection.reason, inspection.message, "inspect", count=1)


def _remembered_failure(subject: Subject, seen: Seen, verdicts: Mapping[str, Verdict]) -> Mapping[str, Any] | None:
    """While a failed inspection runs again its failure stays, as its condition does."""
    running_again = seen.inspection.state is State.RUNNING and verdicts[c.MODEL_READY].status == c.FALSE
    return subject.previous.get("failure") if running_again else None


def _addresses(subject: Subject, seen: Seen) -> list[dict[str, str]] | None:
    if seen.children.service is None:
        return None
    return [{"name": "cluster", "url": f"http://{subject.name}.{subject.namespace}.svc:{PORT}/v1"}]


def _cut(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    return {type_: Verdict(one.status, one.reason, one.message[:MESSAGE_MAX]) for type_, one in verdicts.items()}
