"""What the inspect Job found, read out of its pod's termination message, and when a failed one runs again.

The message is copied into an annotation, so that the finding outlives the pod: of the Service, which is written with
the plan anyway and names the Job; of the Job where no plan follows. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from windlass_api.names import FINISHED_ANNOTATION, INSPECT, JOB_ANNOTATION, RESULT_ANNOTATION
from windlass_api.plan.record import MODELS_KEPT
from windlass_base.untrusted_json import parsed
from windlass_sizing.errors import FactsError
from windlass_sizing.model.facts import ModelFacts

from windlass_operator.records.base import Record, living, owned_by
from windlass_operator.records.pods import Event, Pod
from windlass_operator.records.workloads import Job
from windlass_operator.status import reasons
from windlass_operator.status.failure import cut
from windlass_operator.status.failures import diagnose
from windlass_operator.status.jobs import again_in_s, given_up, held_open, instant, made_at, refused, terminated

RETRY_MAX_S = 600.0


class State(Enum):
    """How far the inspection is."""

    RUNNING = "running"
    STUCK = "stuck"  # its pod cannot start; the kubelet goes on trying by itself
    FOUND = "found"
    FAILED = "failed"  # it looked and something is wrong; we look again later


@dataclass(frozen=True, slots=True)
class Inspection:
    """The finding; `text` is the termination message as it came."""

    state: State
    reason: str
    message: str
    facts: ModelFacts | None = None  # of a model that was FOUND
    text: str = ""
    finished_at: str = ""


WAITING = Inspection(State.RUNNING, "Inspecting", "a Job reads the model's directory")


def read(job: Job | None, pods: Iterable[Pod], events: Iterable[Event], service: Record | None = None) -> Inspection:
    """The finding of a Job, which it or the Service keeps, else its pod; a Job that is not there has not begun."""
    if job is None:
        return WAITING
    for keeper in (job, *((service,) if service and keeps(service, job) else ())):
        kept = keeper.annotation(RESULT_ANNOTATION)
        if kept:
            where = f"the annotation {RESULT_ANNOTATION} of {keeper.kind} {keeper.name}"
            return parse(kept, instant(keeper.annotation(FINISHED_ANNOTATION)), where)
    mine = owned_by(pods, job.uid)
    for pod in living(mine):
        ended = terminated(pod, INSPECT)
        if ended is not None and (ended.exit_code == 0 or given_up(job) or held_open((pod,), INSPECT)):
            return parse(ended.message, ended.finished_at or made_at(job))
    if given_up(job):
        return _overdue(given_up(job)) if _is_overdue(job) else parse("", given_up(job))
    events = tuple(events)
    stuck = diagnose(mine, events) or refused(job, mine, events, "inspect.resources")
    return Inspection(State.STUCK, stuck.reason, stuck.message) if stuck and stuck.exit_code is None else WAITING


def keeps(service: Record | None, job: Job) -> bool:
    """Whether the Service keeps the finding of this Job; a Job that was made anew looks for itself."""
    return service is not None and service.annotation(JOB_ANNOTATION) == job.uid


def is_kept(job: Job, service: Record | None) -> bool:
    """Whether the finding of this Job outlives its pod."""
    return bool(job.annotation(RESULT_ANNOTATION)) or keeps(service, job)


def lies_on_service(service: Record | None, job: Job | None, *, planned: bool) -> bool:
    """Whether the Service is to keep the finding: with a plan it costs no write. It stays where it lies already."""
    if job is None or job.annotation(RESULT_ANNOTATION):
        return False
    return planned or keeps(service, job)


def _is_overdue(job: Job) -> bool:
    row = job.condition("Failed")
    return row is not None and row.reason == "DeadlineExceeded"


def _overdue(finished_at: str) -> Inspection:
    """The Job controller ended it: a read that hangs in the kernel hears of no deadline of the program's own."""
    words = reasons.explain("InspectOverdue", "the inspect Job did not end within its activeDeadlineSeconds")
    return Inspection(State.FAILED, "InspectOverdue", words, finished_at=finished_at)


def parse(text: str, finished_at: str, where: str = "the answer of the inspect Job") -> Inspection:
    """The finding in a termination message or in an annotation; a text that is not ours is a failed inspection."""
    data = parsed(text)
    if not isinstance(data, Mapping):
        words = cut(text, 512) or "it left no message"
        message = f"the inspect Job ended without an answer: {words}"
        return Inspection(State.FAILED, "InspectFailed", message, text=text, finished_at=finished_at)
    if data.get("ok") is True and isinstance(data.get("facts"), Mapping):
        try:
            return Inspection(State.FOUND, "ModelFound", "", _facts(text), text, finished_at)
        except FactsError as error:
            reason = error.reason if error.reason == "ConfigImplausible" else "InspectFailed"
            return Inspection(State.FAILED, reason, f"{where} is not believed: {error}", None, text, finished_at)
    reason = reasons.known(str(data.get("reason")), "InspectFailed")
    return Inspection(State.FAILED, reason, str(data.get("message") or reason), None, text, finished_at)


@lru_cache(MODELS_KEPT)
def _facts(text: str) -> ModelFacts:
    return ModelFacts.from_dict(parsed(text)["facts"])


def retry_in_s(inspection: Inspection, failing_since: str, now: str) -> float:
    """Seconds until a failed inspection runs again: the wait grows with the time that it has been failing.

    The condition's lastTransitionTime is the only memory, so a restarted operator keeps the same pace.
    """
    return again_in_s(inspection.finished_at, failing_since, now, RETRY_MAX_S)
