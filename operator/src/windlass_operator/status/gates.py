"""What each condition says, but Ready: functions of the subject, of what was seen, and of the one failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from windlass_operator.manifests.pod import RESTARTED_ANNOTATION
from windlass_operator.records.base import living
from windlass_operator.status import conditions as c
from windlass_operator.status import facts as pod_facts
from windlass_operator.status import reasons, replicas, routes
from windlass_operator.status.conditions import Verdict
from windlass_operator.status.failure import Failure
from windlass_operator.status.inspection import State
from windlass_operator.status.replicas import Replicas
from windlass_operator.status.subject import Seen, Subject

Gates = Mapping[str, Verdict]


def gates(subject: Subject, seen: Seen, failure: Failure | None, now: str) -> dict[str, Verdict]:
    """Ready's parts, in the order in which they become true."""
    children = seen.children
    return {
        c.MODEL_READY: model_ready(subject, seen),
        c.PLANNED: planned(subject, seen),
        c.LICENSED: licensed(subject, seen, now),
        c.WORKLOAD_READY: workload_ready(subject, seen, failure),
        c.ROUTE_READY: routes.route_ready(subject.expose, children.ingress, children.http_route, seen.routes_known),
    }


def before_the_workload(subject: Subject, seen: Seen) -> dict[str, Verdict]:
    """The gates that say what is known before any pod is made."""
    return {
        c.DOWNLOADING: downloading(seen),
        c.MODEL_READY: model_ready(subject, seen),
        c.PLANNED: planned(subject, seen),
    }


def downloading(seen: Seen) -> Verdict:
    """The download as its own module tells it."""
    return seen.downloading or c.no("Settled", "no download is asked for")


def _download_in_the_way(seen: Seen) -> Verdict | None:
    """A download that runs, or that failed."""
    one = seen.downloading
    if one is None or (one.status == c.FALSE and reasons.row(one.reason).severity == reasons.NORMAL):
        return None
    return one


def model_ready(subject: Subject, seen: Seen) -> Verdict:
    """While an inspection runs again for the same spec, what it found last stays: the words do not flicker."""
    inspection, way = seen.inspection, _download_in_the_way(seen)
    if way is not None and inspection.state is not State.FOUND:
        return Verdict(c.FALSE if way.status == c.FALSE else c.UNKNOWN, way.reason, way.message)
    if inspection.state is State.FOUND:
        return c.yes("ModelFound", inspection.message)
    if inspection.state in (State.FAILED, State.STUCK):
        return c.no(inspection.reason, inspection.message)
    before = c.find(subject.previous_conditions, c.MODEL_READY)
    if before and before.get("status") != c.UNKNOWN and before.get("observedGeneration") == subject.generation:
        return Verdict(str(before["status"]), str(before["reason"]), str(before.get("message") or ""))
    return c.unknown("Inspecting", inspection.message)


def planned(subject: Subject, seen: Seen) -> Verdict:
    """Without a finding there is nothing to plan; a plan of the same spec stays in force meanwhile."""
    if seen.inspection.state is State.FOUND:
        return seen.planned
    before = c.find(subject.previous_conditions, c.PLANNED)
    if before and before.get("status") == c.TRUE and before.get("observedGeneration") == subject.generation:
        return Verdict(c.TRUE, str(before["reason"]), str(before.get("message") or ""))
    return c.unknown("Planning", "waits for the model's facts")


def licensed(subject: Subject, seen: Seen, now: str) -> Verdict:
    """While no pod answers, what the same pods said last stays: the words do not flicker."""
    if not subject.license_required:
        return c.yes("LicenseNotRequired")
    told = pod_facts.license_verdict(seen.facts, now)
    if told is not None:
        return told
    before = c.find(subject.previous_conditions, c.LICENSED)
    if before and before.get("status") == c.TRUE and replicas.count(seen.children).ready:
        return Verdict(c.TRUE, str(before["reason"]), str(before.get("message") or ""))
    same = before and before.get("status") == c.FALSE and before.get("observedGeneration") == subject.generation
    if before and same and living(seen.children.pods):
        return Verdict(c.FALSE, str(before["reason"]), str(before.get("message") or ""))
    return c.unknown("LicensePending")


def workload_ready(subject: Subject, seen: Seen, failure: Failure | None) -> Verdict:
    """Whether as many replicas answer as are wanted, and what the others do or lack."""
    now = replicas.count(seen.children)
    if subject.wanted == 0:
        return Verdict(c.FALSE, *_nothing_wanted(subject, now.total))
    if now.ready >= subject.wanted:
        return c.yes("Running", f"{now.ready} of {subject.wanted} replicas answer")
    if failure is not None:
        return c.no(failure.reason, failure.message)
    if seen.planned.status != c.TRUE and not (seen.children.deployment or seen.children.stateful_sets):
        return c.unknown("Planning", "waits for the plan")
    return Verdict(c.FALSE, "Starting", f"{now.ready} of {subject.wanted} replicas answer; {_doing(seen, now)}")


def _nothing_wanted(subject: Subject, total: int) -> tuple[str, str]:
    """Reason and message; replicas that have not ended yet are counted."""
    left = f"; replicas that are still there: {total}" if total else ""
    if subject.suspended:
        return "Suspended", f"spec.suspend is true; set it to false to serve again{left}"
    return "ScaledToZero", f"spec.replicas is 0; set it to 1 or more to serve again{left}"


def _doing(seen: Seen, now: Replicas) -> str:
    told = sorted({one.doing() for one in seen.facts if one.phase != "serving" or not now.ready})
    return "; ".join((*told, *now.waits)) or "the pods start"


def degraded(subject: Subject, seen: Seen, gates: Gates, failure: Failure | None) -> Verdict:
    """Trouble beside what answers; where nothing answers, Ready itself says so."""
    now = replicas.count(seen.children)
    if now.ready == 0 or subject.wanted == 0:
        return c.no(
            "Settled", "no replica answers that could be degraded" if subject.wanted else "no replica is wanted"
        )
    if failure is not None:
        return c.trouble(failure.reason, f"{now.ready} of {subject.wanted} replicas answer; {failure.message}")
    order = (c.LICENSED, c.ROUTE_READY, c.MODEL_READY, c.PLANNED)
    shut = next((gates[type_] for type_ in order if gates[type_].status == c.FALSE), None)
    return c.trouble(shut.reason, shut.message) if shut else c.no("Settled", "nothing is wrong")


def progressing(subject: Subject, seen: Seen, gates: Gates, failure: Failure | None) -> Verdict:
    """Whether anything is under way by itself; what waits for a person is False with the reason."""
    for type_ in (c.MODEL_READY, c.PLANNED):
        if gates[type_].status == c.FALSE:
            return Verdict(c.FALSE, gates[type_].reason, gates[type_].message)
    if failure is not None:
        return c.no(failure.reason, failure.message)
    if seen.downloading is not None and seen.downloading.status == c.TRUE:
        return c.yes(seen.downloading.reason)
    if seen.inspection.state is State.RUNNING:
        return c.yes("Inspecting")
    if gates[c.LICENSED].status == c.FALSE:
        return Verdict(c.FALSE, gates[c.LICENSED].reason, gates[c.LICENSED].message)
    if gates[c.WORKLOAD_READY].status != c.TRUE and subject.wanted > 0:
        return c.yes("Starting")
    return c.yes("RollingOut") if replicas.rolling(seen.children) else c.no("Settled")


def outdated(subject: Subject, seen: Seen) -> Verdict:
    """The pods run what an earlier operator rendered, and how to take what this one renders."""
    again = f"kubectl annotate llm -n {subject.namespace} {subject.name} {RESTARTED_ANNOTATION}=$(date +%s) --overwrite"
    images = ", ".join(seen.kept_images)
    message = f"the pods are as an earlier operator rendered them, with {images}; to replace them by today's: {again}"
    return c.yes("RenderedEarlier", message)
