"""The whole status of an LLMService, from what was read: conditions, plan, failure, start-up, addresses.

`observe` is a function of values; `reconciler.py` calls it once a run and writes the result only when it differs.
Ready is True exactly while a replica answers; otherwise its reason is that of the first gate that is shut. A True Ready
speaks of the last generation whose replicas all answered: `kubectl wait` compares it with the spec's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass_operator.records.base import living
from windlass_operator.status import conditions as c
from windlass_operator.status import facts as pod_facts
from windlass_operator.status import gates as parts
from windlass_operator.status import replicas, routes
from windlass_operator.status.children import Children
from windlass_operator.status.conditions import Verdict
from windlass_operator.status.failures import Failure, diagnose_service, last_crash
from windlass_operator.status.inspection import Inspection, State
from windlass_operator.status.replicas import Replicas
from windlass_operator.status.subject import Seen, Subject

__all__ = ["Seen", "Subject", "observe", "rejected", "served_generation"]

MESSAGE_MAX = 4096
PREFIX_CACHE_MOVES = 2  # percent points: a service whose shares drift by less is not written
FIGURES = frozenset({"replicas", "readyReplicas", "updatedReplicas", "ready", "addresses"})  # read from the children
IN_FORCE = ("gpus", "tp", "maxModelLen", "quantization")  # the figures of a plan that a listing shows
# Words with which an operator says that it did not bring a generation about, whatever its number says.
REFUSED = ("Rejected", "SpecTooLarge", "InternalError", "NameTaken", "NodePathForbidden", "PlanOverdue")


def served_generation(subject: Subject) -> int | None:
    """The generation that the pods were last rendered for; 0.1.0 did not write it, and planned what it observed."""
    known = subject.previous.get("servedGeneration")
    if isinstance(known, int):
        return known
    rows = subject.previous_conditions
    found = [c.find(rows, type_) or {} for type_ in (c.MODEL_READY, c.PLANNED)]
    moves = c.find(rows, c.PROGRESSING) or {}
    if moves.get("reason") in REFUSED or any(row.get("status") != c.TRUE for row in found):
        return None
    observed = subject.previous.get("observedGeneration")
    return observed if isinstance(observed, int) else None


def failure_of(subject: Subject, seen: Seen, now: str) -> Failure | None:
    """The one failure that is told now: why it is held, else what its pods say; `now` is RFC 3339."""
    if seen.held is not None:
        return seen.held.failure()
    settled = replicas.count(seen.children).ready >= subject.wanted
    return pod_facts.stalled(seen.facts, diagnose_service(seen.children, settled, now))


def observe(subject: Subject, seen: Seen, now: str) -> dict[str, Any]:
    """The new status; `now` is RFC 3339."""
    failure, count = failure_of(subject, seen, now), replicas.count(seen.children)
    verdicts = _verdicts(subject, seen, failure, now)
    shown = failure or _inspect_failure(seen.inspection) or last_crash(seen.children.pods)
    plan, served = _plan(subject, seen), subject.generation if seen.plan else served_generation(subject)
    ready = _ready_generation(subject, served, seen.children)
    status: dict[str, Any] = {
        "observedGeneration": subject.generation,
        "servedGeneration": served,
        "readyGeneration": ready or None,
        "conditions": _conditions(subject, verdicts, now, ready),
        "plan": plan,
        "inForce": _in_force(subject, plan, seen.children, held=seen.held is not None),
        "download": seen.download,
        "startup": pod_facts.startup(seen.facts) or subject.previous.get("startup"),
        "prefixCache": _prefix_cache(subject, seen, settled=verdicts[c.PROGRESSING].reason == "Settled"),
        "failure": shown.to_status() if shown else _remembered_failure(subject, seen, verdicts),
        **_counts(subject, count),
        "selector": seen.selector,
        "addresses": _addresses(subject, seen),
    }
    return {key: value for key, value in status.items() if value is not None}


def rejected(
    subject: Subject, refusal: Verdict, now: str, children: Children | None = None, seen: Seen | None = None
) -> dict[str, Any]:
    """The status of a resource that cannot be used as written: what runs stays, and the `refusal` says why.

    `children` are its own objects; None where they cannot be read, and then the last figures stay. `seen` is what was
    known of model and plan when the workload was refused; None where the refusal came before.
    """
    known = {key: value for key, value in subject.previous.items() if key not in FIGURES or children is None}
    figures = known if children is None else {**known, **_figures(subject, children)}
    if seen is not None and children is not None and not children.makers:
        figures["plan"] = seen.plan  # no pods run by an earlier one
    verdicts = {c.READY: refusal, c.PROGRESSING: refusal}
    if seen is not None:
        verdicts |= parts.before_the_workload(subject, seen)
    kept = {
        str(row["type"]): Verdict(str(row["status"]), str(row["reason"]), str(row.get("message") or ""))
        for row in subject.previous_conditions
        if row.get("type") not in verdicts
    }
    if (figures.get("readyReplicas") or 0) > 0:
        verdicts[c.READY] = c.yes("PartlyReady", f"an earlier spec is served; {verdicts[c.PROGRESSING].message}")
    before = kept.get(c.WORKLOAD_READY) if seen is None else refusal
    if children is not None and (verdict := _workload(subject, children, before, now)):
        verdicts[c.WORKLOAD_READY] = verdict
    served = served_generation(subject)
    ready = _ready_generation(subject, served, children)
    merged = _conditions(subject, {**kept, **verdicts}, now, ready)
    return {
        **figures,
        "observedGeneration": subject.generation,
        **({"servedGeneration": served} if served is not None else {}),
        **({"readyGeneration": ready} if ready else {}),
        "conditions": merged,
    }


def _workload(subject: Subject, children: Children, before: Verdict | None, now: str) -> Verdict | None:
    """Whether the replicas of a rejected spec answer; the last word stays where no pod is to run, unless one ran."""
    if any(row.spec.replicas for row in children.makers) or (subject.wanted == 0 and before):
        seen = Seen(children=children)
        return parts.workload_ready(subject, seen, failure_of(subject, seen, now))
    if before and before.reason in {"Running", "Starting"}:
        return Verdict(c.UNKNOWN, "Planning", "no replica runs while the spec is rejected")
    return before


def _figures(subject: Subject, children: Children) -> dict[str, Any]:
    """The FIGURES of a resource whose spec is not in force: an address stays while its object is there."""
    count = replicas.count(children)
    cluster = routes.cluster_address(subject.name, subject.namespace)
    there = {"ingress": children.ingress, "gateway": children.http_route}
    outside = [row for row in subject.previous.get("addresses") or () if there.get(str(row.get("name")))]
    in_force = _in_force(subject, subject.previous.get("plan"), children, held=False)
    return {
        **_counts(subject, count),
        **({"inForce": in_force} if in_force else {}),
        **({"addresses": [cluster, *outside]} if children.service else {}),
    }


def _counts(subject: Subject, count: Replicas) -> dict[str, Any]:
    return {
        "replicas": count.total,
        "readyReplicas": count.ready,
        "updatedReplicas": count.total - count.old,
        "ready": f"{count.ready}/{subject.wanted}",
    }


def _conditions(subject: Subject, verdicts: Mapping[str, Verdict], now: str, ready: int) -> list[dict[str, Any]]:
    """The conditions; a True Ready speaks of the `ready` generation, the last one whose replicas all answered."""
    rows = c.merge(subject.previous_conditions, _cut(verdicts), subject.generation, now)
    return [
        {**row, "observedGeneration": ready} if (row["type"], row["status"]) == (c.READY, c.TRUE) else row
        for row in rows
    ]


def _ready_generation(subject: Subject, served: int | None, children: Children | None) -> int:
    """The last generation whose replicas all answered, also where one ended since; 0 before there is one."""
    known, present = _known_ready_generation(subject), subject.generation
    if served == present and (known == present or _all_answer(subject, children)):
        return present
    return max(0, min(known, present - 1))


def _all_answer(subject: Subject, children: Children | None) -> bool:
    """Whether all replicas answer, and none is of an earlier revision."""
    if children is None or replicas.rolling(children):
        return False
    return replicas.count(children).ready >= subject.wanted


def _known_ready_generation(subject: Subject) -> int:
    """The number that the last status has; an operator that does not write it leaves it in a True Ready alone."""
    known = subject.previous.get("readyGeneration")
    if known is None:
        row = c.find(subject.previous_conditions, c.READY) or {}
        known = row.get("observedGeneration") if row.get("status") == c.TRUE else None
    return known if isinstance(known, int) else 0


def _in_force(
    subject: Subject, plan: Mapping[str, Any] | None, children: Children, *, held: bool
) -> dict[str, Any] | None:
    """The figures of what serves: those from before while pods of an earlier revision are there."""
    total = replicas.count(children).total
    before = subject.previous.get("inForce") or subject.previous.get("plan")
    source = before if before and total and replicas.rolling(children) else plan
    figures = {key: source[key] for key in IN_FORCE if key in source} if source else {}
    idle = not total and (held or not subject.wanted)
    return {**figures, "gpus": 0} if figures and idle else figures or None


def _verdicts(subject: Subject, seen: Seen, failure: Failure | None, now: str) -> dict[str, Verdict]:
    gates = parts.gates(subject, seen, failure, now)
    return {
        c.READY: _ready(subject, seen, gates, failure),
        c.DOWNLOADING: parts.downloading(seen),
        **gates,
        c.DEGRADED: parts.degraded(subject, seen, gates, failure),
        c.PROGRESSING: parts.progressing(subject, seen, gates, failure),
        **({c.OUTDATED: parts.outdated(subject, seen)} if seen.kept_images else {}),
        **({c.OLDER_FIELDS: c.trouble("OlderForm", "; ".join(seen.older_forms))} if seen.older_forms else {}),
    }


def _ready(subject: Subject, seen: Seen, gates: Mapping[str, Verdict], failure: Failure | None) -> Verdict:
    count, shut = replicas.count(seen.children), _shut_gate(gates)
    ready = count.ready
    if ready == 0 or subject.wanted == 0:
        shut = gates[c.WORKLOAD_READY] if shut is None or subject.wanted == 0 else shut
        return Verdict(c.FALSE, shut.reason, shut.message)
    message = f"{ready} of {subject.wanted} replicas answer"
    held_up = next((gates[t] for t in (c.MODEL_READY, c.PLANNED) if gates[t].status == c.FALSE), None)
    if held_up is not None:
        message = f"{message}, of an earlier spec; the change is not in force: {held_up.message}"
    elif count.old:
        revisions = f"pods of the earlier revision: {count.old}, of the new one: {count.total - count.old}"
        message = "; ".join([message, revisions, *([failure.message] if failure else [])])
        return c.yes("RollingOut", message)
    elif shut is not None and shut.status == c.FALSE and ready < subject.wanted:
        message = gates[c.WORKLOAD_READY].message
    elif gates[c.ROUTE_READY].status == c.FALSE:
        message = f"{message}, inside the cluster only: {gates[c.ROUTE_READY].message}"
    return c.yes("Running" if ready >= subject.wanted else "PartlyReady", message)


def _shut_gate(gates: Mapping[str, Verdict]) -> Verdict | None:
    """The first gate that is False tells more than one that is not known yet; the way in tells least of all."""
    shut = [gates[type_] for type_ in c.GATES if gates[type_].status != c.TRUE and type_ != c.ROUTE_READY]
    return next((one for one in shut if one.status == c.FALSE), shut[0] if shut else None)


def _plan(subject: Subject, seen: Seen) -> Mapping[str, Any] | None:
    """The plan with what the engine measured; a measurement stays while its plan does."""
    before: Mapping[str, Any] = subject.previous.get("plan") or {}
    if not seen.plan:
        return before if before and (seen.children.deployment or seen.children.stateful_sets) else None
    known = before.get("measured")
    living_pods = {pod.name for pod in living(seen.children.pods)}
    if known and (
        {**before, "measured": None} != {**seen.plan, "measured": None} or known.get("pod") not in living_pods
    ):
        known = None
    measured = pod_facts.measured(seen.facts, str((known or {}).get("pod") or "")) or known
    return {**seen.plan, "measured": measured} if measured else seen.plan


def _prefix_cache(subject: Subject, seen: Seen, *, settled: bool) -> Mapping[str, Any] | None:
    """Where prompts were found; what was known stays while nobody answers, anything moves, or it hardly differs."""
    if not subject.counts_hits:
        return None
    known: Mapping[str, Any] | None = subject.previous.get("prefixCache")
    counted = pod_facts.prefix_cache(seen.facts)
    if not counted or not known:
        return counted or known
    moved = max(abs(share - known.get(name, 0)) for name, share in counted.items())
    return counted if settled and moved >= PREFIX_CACHE_MOVES else known


def _inspect_failure(inspection: Inspection) -> Failure | None:
    if inspection.state not in (State.FAILED, State.STUCK):
        return None
    return Failure(inspection.reason, inspection.message, "inspect", count=1)


def _remembered_failure(subject: Subject, seen: Seen, verdicts: Mapping[str, Verdict]) -> Mapping[str, Any] | None:
    """Keep the failure of a failed inspection that runs again, as its condition is kept."""
    running_again = seen.inspection.state is State.RUNNING and verdicts[c.MODEL_READY].status == c.FALSE
    return subject.previous.get("failure") if running_again else None


def _addresses(subject: Subject, seen: Seen) -> list[dict[str, str]] | None:
    children = seen.children
    if children.service is None:
        return None
    return routes.addresses(subject.name, subject.namespace, subject.expose, children.ingress, children.http_route)


def _cut(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    return {type_: Verdict(one.status, one.reason, one.message[:MESSAGE_MAX]) for type_, one in verdicts.items()}
