"""The one reconcile: read → decide → render → apply → status, for one LLMService.

Everything that is decided here is a function of what was read, so an event that was missed is only late, never lost,
and a second run in the same state writes nothing. handlers.py calls `Reconciler.reconcile`; nothing else does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx2

from windlass_operator import filling
from windlass_operator.api.v1alpha1 import API_VERSION, KIND, LLMService
from windlass_operator.cluster.apply import Applier
from windlass_operator.cluster.client import Cluster, Manifest
from windlass_operator.cluster.events import Note, record
from windlass_operator.cluster.facts import pod_facts
from windlass_operator.cluster.inventory import read_inventory
from windlass_operator.cluster.kinds import APPLIED, Jobs, LLMServices, Pods
from windlass_operator.cluster.read import read_children
from windlass_operator.errors import NotServedError, UserError
from windlass_operator.filling import Ask, Filling
from windlass_operator.intent import (
    facts_of,
    model_sentence,
    must_be_allowed,
    parse_service,
    pods_digest,
    subject_of,
    with_finding,
    with_rollout,
    workload,
)
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.metadata import selector_text
from windlass_operator.plan.decide import decide
from windlass_operator.plan.model import Placement, Refusal
from windlass_operator.plan.rollout import choose_rollout
from windlass_operator.record import PlanRecord, inputs_digest, recorded_plan
from windlass_operator.settings import Settings
from windlass_operator.status import conditions as c
from windlass_operator.status import hold as holds
from windlass_operator.status import inspection as inspections
from windlass_operator.status import reasons
from windlass_operator.status.children import Children, Object, condition_of, dig, is_ready, living, name_of
from windlass_operator.status.conditions import Verdict
from windlass_operator.status.hold import Hold
from windlass_operator.status.inspection import Inspection, State
from windlass_operator.status.observe import Seen, Subject, observe, rejected
from windlass_operator.status.pace import again_in_s
from windlass_operator.turns import to_end

logger = logging.getLogger(__name__)

REJECTED_AGAIN_S = 60.0  # a quota or a policy may have been changed meanwhile
RECREATE_S = 1.0  # between deleting a Job and making it anew
GPU_REASONS = ("NoGpuNodes", "GpuTypeNotFound", "NotEnoughGpus", "DoesNotFit", "InsufficientGpus")


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which LLMService."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Look:
    """One LLMService as one run sees it."""

    raw: Manifest
    service: LLMService
    subject: Subject
    children: Children
    now: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What planning came to: the record to serve by, or only the words of `verdict`."""

    verdict: Verdict
    record: PlanRecord | None = None


def utc_now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reconciler:
    """Brings LLMServices to what they say; holds no state that a restart would miss."""

    def __init__(
        self, cluster: Cluster, http: httpx2.AsyncClient, settings: Settings, clock: Callable[[], str] = utc_now
    ) -> None:
        self._cluster = cluster
        self._http = http
        self._settings = settings
        self._clock = clock
        self._applier = Applier(cluster)
        self.waiting_for_gpus: set[Key] = set()

    async def reconcile(self, key: Key) -> float | None:
        """One look and what follows from it; returns the seconds until the next look, None for "on an event"."""
        raw = await self._cluster.get(LLMServices, key.namespace, key.name)
        if raw is None or dig(raw, "metadata", "deletionTimestamp"):
            self._applier.forget(key.namespace, key.name)
            self.waiting_for_gpus.discard(key)
            return None
        subject, now = subject_of(raw), self._clock()
        try:
            service = parse_service(raw)
            must_be_allowed(service, self._settings)
            place = filling.where(service)
            children = await read_children(self._cluster, key.namespace, key.name, service.metadata.uid, place)
            return await self._bring_about(key, Look(raw, service, subject, children, now))
        except UserError as error:
            await self._write(raw, subject, rejected(subject, error.reason, error.message, now), now)
            return REJECTED_AGAIN_S

    async def _bring_about(self, key: Key, look: Look) -> float | None:
        ask = Ask(look.service, look.children, _failing_since(look.subject), look.now)
        filled = await filling.fill(self._cluster, self._http, self._settings, ask)
        job = inspect_job(look.service, self._settings.operator_image, self._settings.image_pull_policy)
        live_job = next((one for one in look.children.jobs if name_of(one) == job["metadata"]["name"]), None)
        found = inspections.read(live_job, look.children.inspect_pods, look.children.events)
        outcome, routes_known = Outcome(c.unknown("Planning")), True
        if found.state is State.FOUND:
            outcome = await self._plan(look, found)
            found = replace(found, message=model_sentence(look.service, facts_of(found)))
        held = holds.of_service(look.raw, look.children, look.service.spec.deployment.max_restarts, look.now)
        retry_s = await self._inspect(look, job, live_job, found) if filled.done else filled.again_in_s
        if outcome.record is not None:
            record = await self._with_rollout(look, outcome.record)
            routes_known = await self._apply_workload(look, record, held)
            outcome = replace(outcome, record=record)
        status = await self._observe(look, found, outcome, (filled, routes_known, held))
        await self._write(look.raw, look.subject, status, look.now)
        self._remember_waiting(key, status)
        return again_in_s(status["conditions"], look.now) if retry_s is None else retry_s

    async def _inspect(self, look: Look, job: Manifest, live: Object | None, found: Inspection) -> float | None:
        """Keep exactly the one Job that looks at the present source; a failed one is made anew after its wait."""
        for other in look.children.jobs:
            if name_of(other) != name_of(job) and not dig(other, "metadata", "deletionTimestamp"):
                await self._cluster.delete(Jobs, look.service.metadata.namespace, name_of(other))
        if live is not None and dig(live, "metadata", "deletionTimestamp"):
            return RECREATE_S
        if live is not None and found.state is State.FAILED:
            wait_s = inspections.retry_in_s(found, _failing_since(look.subject), look.now)
            if wait_s <= 0:
                await self._cluster.delete(Jobs, look.service.metadata.namespace, name_of(live))
                return RECREATE_S
            await self._applier.apply(with_finding(job, found), live)
            return wait_s
        await self._applier.apply(with_finding(job, found), live)
        return None

    async def _plan(self, look: Look, found: Inspection) -> Outcome:
        """The plan in force while nothing that it was made from changed; else a new one."""
        facts = facts_of(found)
        digest = inputs_digest(look.service, facts)
        kept = recorded_plan(look.children.service)
        kept = kept if kept is not None and kept.digest == digest else None
        if kept is not None and not _cannot_be_placed(look.children):
            return Outcome(c.yes("Planned", kept.plan.summary()), kept)
        meta = look.service.metadata
        inventory = await read_inventory(self._cluster, self._settings.watch_namespace, meta.namespace, meta.name)
        keep = Placement(kept.plan.gpu_type, kept.plan.gpus, kept.plan.nodes) if kept and kept.plan.gpu_type else None
        decided = decide(look.service.spec, facts, inventory, keep=keep)
        if not isinstance(decided, Refusal):
            return Outcome(c.yes("Planned", decided.summary()), PlanRecord(digest, decided))
        if kept is not None:  # it cannot be placed now, and nothing else would fit either: the pods' own words say why
            return Outcome(c.yes("Planned", kept.plan.summary()), kept)
        return Outcome(Verdict(c.FALSE, decided.reason, decided.sentence()))

    async def _with_rollout(self, look: Look, record: PlanRecord) -> PlanRecord:
        """How the pods will be replaced: chosen when they are about to change, and kept until they change again."""
        pods = pods_digest(look.service, record.plan, self._settings)
        before = recorded_plan(look.children.service)
        if before is not None and before.pods == pods and before.rollout:
            return with_rollout(record, pods, before.rollout)
        meta = look.service.metadata
        free = await read_inventory(
            self._cluster, self._settings.watch_namespace, meta.namespace, meta.name, own_is_free=False
        )
        wish = look.service.spec.deployment.rollout
        return with_rollout(record, pods, choose_rollout(wish, record.plan, free))

    async def _apply_workload(self, look: Look, planned: PlanRecord, held: Hold | None) -> bool:
        """Apply what is wanted, then take away what serves and is wanted no longer; False when routes are not known."""
        wanted, known = workload(look.service, planned, self._settings, held), True
        for manifest in wanted:
            live = look.children.live(manifest["kind"], manifest["metadata"]["name"])
            try:
                await self._applier.apply(manifest, live)
            except NotServedError:  # only HTTPRoutes come with a CRD that may be missing
                known = False
        names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
        for old in look.children.owned(look.service.metadata.uid):
            if (old.get("kind"), name_of(old)) not in names and not dig(old, "metadata", "deletionTimestamp"):
                await self._cluster.delete(APPLIED[str(old["kind"])], look.service.metadata.namespace, name_of(old))
        for pod in to_end(look.children.stateful_sets, look.children.pods):
            await self._cluster.delete(Pods, look.service.metadata.namespace, name_of(pod))
        return known

    async def _observe(
        self, look: Look, found: Inspection, outcome: Outcome, around: tuple[Filling, bool, Hold | None]
    ) -> dict[str, Any]:
        facts = await pod_facts(self._http, _worth_asking(look))
        seen = Seen(
            children=look.children,
            facts=facts,
            inspection=found,
            planned=outcome.verdict,
            plan=outcome.record.to_status() if outcome.record else None,
            selector=selector_text(look.subject.name),
            downloading=around[0].verdict,
            download=around[0].progress,
            routes_known=around[1],
            held=around[2],
        )
        return observe(look.subject, seen, look.now)

    async def _write(self, raw: Manifest, subject: Subject, status: dict[str, Any], now: str) -> None:
        """Write the status when it differs, and tell what is new in it as Events."""
        if status == subject.previous:
            return
        meta = {"name": subject.name, "namespace": subject.namespace}
        await self._cluster.apply_status({"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "status": status})
        owner = {"apiVersion": API_VERSION, "kind": KIND, "metadata": raw["metadata"]}
        for note in notes(subject.previous, status):
            logger.info("%s/%s: %s: %s", subject.namespace, subject.name, note.reason, note.message)
            await record(self._cluster, owner, note, now)

    def _remember_waiting(self, key: Key, status: Mapping[str, Any]) -> None:
        """Those that wait for GPUs are looked at when a node changes."""
        progressing = c.find(status["conditions"], c.PROGRESSING) or {}
        if progressing.get("reason") in GPU_REASONS:
            self.waiting_for_gpus.add(key)
        else:
            self.waiting_for_gpus.discard(key)


def notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """The Events that a change of status is worth: a new plan, a new word of Ready, trouble beside it, a warning."""
    told: list[Note] = []
    for type_ in (c.PLANNED, c.READY, c.DEGRADED):
        old = c.find(before.get("conditions") or (), type_) or {}
        new = c.find(after["conditions"], type_) or {}
        if type_ != c.READY and new.get("status") != c.TRUE:
            continue  # why there is no plan is Ready's word too, and no trouble is no news
        warns = new and reasons.row(new["reason"]).severity == reasons.WARNING
        if new.get("reason") != old.get("reason") or (
            new.get("message") != old.get("message") and (warns or type_ == c.PLANNED)
        ):
            told.append(Note(str(new["reason"]), str(new["message"])))
    words = {note.reason for note in told}
    return told + [note for note in _license_notes(before, after) if note.reason not in words]


def _license_notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """A warning about the license, in new words; those of its coming end are new once a day."""
    old = c.find(before.get("conditions") or (), c.LICENSED) or {}
    new = c.find(after["conditions"], c.LICENSED) or {}
    said = [(row.get("reason"), row.get("message")) for row in (old, new)]
    if not new or said[0] == said[1] or reasons.row(new["reason"]).severity != reasons.WARNING:
        return []
    return [Note(str(new["reason"]), str(new["message"]))]


def _failing_since(subject: Subject) -> str:
    row = c.find(subject.previous_conditions, c.MODEL_READY)
    return str(row["lastTransitionTime"]) if row and row.get("status") == c.FALSE else ""


def _cannot_be_placed(children: Children) -> bool:
    """A pod that the scheduler found no node for: perhaps the planned kind of GPU is gone for good."""
    rows = (condition_of(pod, "PodScheduled") for pod in living(children.pods))
    return any(row is not None and row.get("reason") == "Unschedulable" for row in rows)


def _worth_asking(look: Look) -> list[Object]:
    """Pods whose facts may have news: all while something moves or a license may end, else those that are not ready."""
    progressing = c.find(look.subject.previous_conditions, c.PROGRESSING)
    settled = progressing is not None and progressing.get("reason") == "Settled" and not look.subject.license_required
    return [pod for pod in living(look.children.pods) if not settled or not is_ready(pod)]
