"""The one reconcile: read → decide → render → apply → status, for one LLMService.

Everything that is decided here is a function of what was read, so an event that was missed is only late, never lost,
and a second run in the same state writes nothing. `runtime/run.py` alone calls `Reconciler.reconcile`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import msgspec
from windlass_api.crd.older import older_forms
from windlass_api.crd.v1alpha1 import API_VERSION, KIND, LLMService
from windlass_api.names import INSPECT
from windlass_api.objects.reading import is_leaving
from windlass_api.plan.record import PLAN_ANNOTATION, recorded_plan

from windlass_operator.cluster.apply import Applier
from windlass_operator.cluster.events import record
from windlass_operator.cluster.facts import pod_facts
from windlass_operator.cluster.kinds import Jobs, LLMServices
from windlass_operator.cluster.protocol import Cluster
from windlass_operator.cluster.read import read_children
from windlass_operator.cluster.rest import UNREACHABLE, StatusError
from windlass_operator.errors import UserError
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.job_placement import is_placed_as
from windlass_operator.manifests.metadata import Manifest, selector_text
from windlass_operator.manifests.overlay import with_part
from windlass_operator.reconcile import download_stage, earlier
from windlass_operator.reconcile.desired_state import (
    as_installed,
    finding_of,
    finding_on,
    model_sentence,
    must_be_allowed,
    parse_service,
    pods_digest,
    subject_of,
    with_finding,
    workload,
)
from windlass_operator.reconcile.download_stage import Ask, DownloadStage
from windlass_operator.reconcile.plan_stage import Decide, Outcome, Planning, in_place, plan
from windlass_operator.reconcile.snapshot import Key, Snapshot
from windlass_operator.reconcile.workload_stage import bring_in_force, end_replicas
from windlass_operator.records.base import owned_by
from windlass_operator.records.workloads import Job
from windlass_operator.settings import Settings
from windlass_operator.spans import spans
from windlass_operator.status import conditions as c
from windlass_operator.status import hold as holds
from windlass_operator.status import inspection as inspections
from windlass_operator.status.children import Children
from windlass_operator.status.hold import Hold
from windlass_operator.status.inspection import Inspection, State
from windlass_operator.status.jobs import held_open
from windlass_operator.status.notes import notes
from windlass_operator.status.observe import Seen, Subject, observe, rejected
from windlass_operator.status.requeue import again_in_s
from windlass_operator.status.waits import NODE_REASONS

logger = logging.getLogger(__name__)

REJECTED_AGAIN_S = 60.0  # a quota or a policy may have been changed meanwhile
FAILURE_WORDS = 512  # of an exception; the log has it whole
RECREATE_S = 1.0  # between deleting a Job and making it anew


def utc_now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reconciler:
    """Brings LLMServices to what they say; holds no state that a restart would miss."""

    def __init__(
        self,
        cluster: Cluster,
        http: httpx2.AsyncClient,
        settings: Settings,
        clock: Callable[[], str] = utc_now,
        decide: Decide = in_place,
        served: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> None:
        self._cluster = cluster
        self._http = http
        self._settings = settings
        self._clock = clock
        self._served = served  # the status without what the CRD in the cluster lacks
        self._applier = Applier(cluster, settings.node_paths)
        self._planning = Planning(cluster, settings, decide)
        self.waiting_for_gpus: set[Key] = set()

    async def reconcile(self, key: Key) -> float | None:
        """One snapshot and what follows from it; returns the seconds until the next run, None for "on an event"."""
        with spans.span("reconcile", namespace=key.namespace, service=key.name):
            return await self._reconcile(key)

    async def _reconcile(self, key: Key) -> float | None:
        raw = await self._read(key)
        if raw is None or is_leaving(raw):
            self._applier.forget(key.namespace, key.name)
            self.waiting_for_gpus.discard(key)
            return None
        subject, now = subject_of(raw), self._clock()
        try:
            service = parse_service(raw)
            must_be_allowed(service, self._settings)
            return await self._bring_about(
                key, Snapshot(raw, service, subject, await self._children(service, now), now)
            )
        except UserError as error:
            await self._reject(raw, subject, error, now)
            return REJECTED_AGAIN_S

    async def _read(self, key: Key) -> Manifest | None:
        raw = await self._cluster.get(LLMServices, key.namespace, key.name)
        return raw and as_installed(raw, self._settings)

    async def _reject(
        self, raw: Manifest, subject: Subject, error: UserError, now: str, seen: Seen | None = None
    ) -> None:
        """Say why the resource cannot be used; that it wants no replica is carried out all the same.

        `seen` is what was known when its workload was refused.
        """
        children = await self._own_children(raw, now)
        if children is not None and subject.wanted == 0:
            try:
                await end_replicas(self._cluster, children.makers)
            except UserError as refused:
                logger.warning("%s/%s: its replicas run on: %s", subject.namespace, subject.name, refused)
        refusal = c.no(error.reason, error.message)
        await self._write(raw, subject, rejected(subject, refusal, now, children, seen), now)

    async def failed(self, key: Key, error: Exception) -> None:
        """Say in the resource's own status that the operator failed at it; the API server's failures are not its."""
        if isinstance(error, (StatusError, *UNREACHABLE)):
            return
        raw = await self._read(key)
        if raw is None:
            return
        subject, now = subject_of(raw), self._clock()
        words = f"the operator failed at this resource with {type(error).__name__}: {str(error)[:FAILURE_WORDS]}"
        children = await self._own_children(raw, now)
        await self._write(raw, subject, rejected(subject, c.no("InternalError", words), now, children), now)

    async def _own_children(self, raw: Manifest, now: str) -> Children | None:
        """The objects of a resource whose spec may be broken; None where one of them cannot be read."""
        meta = raw["metadata"]
        name, uid = str(meta["name"]), str(meta.get("uid") or "")
        try:
            found = await read_children(self._cluster, str(meta["namespace"]), name, uid, None, now)
        except (UserError, StatusError, msgspec.ValidationError) as error:
            logger.warning("%s/%s: its objects cannot be read: %s", meta["namespace"], name, error)
            return None
        return found.own(uid)

    @spans.stage("read")
    async def _children(self, service: LLMService, now: str) -> Children:
        meta, place = service.metadata, download_stage.where(service)
        return await read_children(self._cluster, meta.namespace, meta.name, meta.uid, place, now)

    async def _bring_about(self, key: Key, snapshot: Snapshot) -> float | None:
        for annotation in not_believed(snapshot):
            logger.warning("%s: %s is not believed: it holds what this operator never writes", key, annotation)
        ask = Ask(
            snapshot.service, snapshot.children, snapshot.failing_since, snapshot.now, snapshot.has_asked_for_download
        )
        stage = await download_stage.advance(self._cluster, self._applier, self._http, self._settings, ask)
        settings = self._settings
        logs = dict(settings.job_log_env)
        job = inspect_job(
            snapshot.service, settings.operator_image, settings.image_pull_policy, logs, settings.inspect_resources
        )
        live_job = next((one for one in snapshot.children.jobs if one.name == job["metadata"]["name"]), None)
        children = snapshot.children
        found = inspections.read(live_job, children.inspect_pods, children.events, children.service)
        outcome, routes_known = Outcome(c.unknown("Planning")), True
        if found.facts is not None:
            outcome = await plan(self._planning, snapshot, found.facts)
            found = replace(found, message=model_sentence(snapshot.service, found.facts))
        held = holds.of_service(
            snapshot.raw, snapshot.children, snapshot.service.spec.deployment.max_restarts, snapshot.now
        )
        planned = outcome.record is not None
        on_service = inspections.lies_on_service(children.service, live_job, planned=planned)
        job = job if on_service else with_finding(job, found)
        retry_s = await self._inspect(snapshot, job, live_job, found) if stage.done else stage.again_in_s
        if outcome.record is not None:
            finding = finding_of(live_job, found) if on_service and live_job else None
            wanted = self._in_force(
                snapshot, outcome, workload(snapshot.service, outcome.record, settings, held, finding)
            )
            try:
                snapshot, routes_known = await self._apply_workload(snapshot, wanted)
            except UserError as error:
                seen = self._seen(snapshot, found, outcome, (stage, routes_known, held))
                await self._reject(snapshot.raw, snapshot.subject, error, snapshot.now, seen)
                return REJECTED_AGAIN_S
        elif snapshot.subject.wanted == 0:  # without a plan nothing is rendered, and the GPUs are to be free
            await end_replicas(self._cluster, children.workloads(snapshot.service.metadata.uid))
        status = await self._observe(snapshot, found, outcome, (stage, routes_known, held))
        await self._write(snapshot.raw, snapshot.subject, status, snapshot.now)
        self._remember_waiting(key, status)
        polled = snapshot.subject.counts_hits
        return again_in_s(status["conditions"], snapshot.now, polled=polled) if retry_s is None else retry_s

    def _in_force(self, snapshot: Snapshot, outcome: Outcome, wanted: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
        """The objects, with the templates of an earlier operator where these stay."""
        if outcome.record is None:
            return wanted
        pods = pods_digest(snapshot.service, outcome.record.plan, self._settings)
        now = earlier.desired(snapshot, outcome.record, outcome.before, self._settings.operator_image, pods)
        return earlier.settled(wanted, snapshot.children.workloads(snapshot.service.metadata.uid), now)

    @spans.stage("inspect")
    async def _inspect(self, snapshot: Snapshot, job: Manifest, live: Job | None, found: Inspection) -> float | None:
        """Keep exactly the one Job that looks at the present source; a failed one is made anew after its wait."""
        name = str(job["metadata"]["name"])
        for other in snapshot.children.jobs:
            if other.name != name and not other.is_leaving:
                await self._cluster.delete(Jobs, snapshot.service.metadata.namespace, other.name)
        if live is not None and live.is_leaving:
            return RECREATE_S
        if live is not None and found.state is State.STUCK and not is_placed_as(live.metadata.annotations, job):
            await self._cluster.delete(Jobs, snapshot.service.metadata.namespace, name)
            return RECREATE_S
        if live is not None and found.state is State.FAILED:
            wait_s = inspections.retry_in_s(found, snapshot.failing_since, snapshot.now)
            if wait_s <= 0:
                await self._cluster.delete(Jobs, snapshot.service.metadata.namespace, name)
                return RECREATE_S
            await self._keep(snapshot, job, live)
            return wait_s
        await self._keep(snapshot, job, live)
        return None

    async def _keep(self, snapshot: Snapshot, job: Manifest, live: Job | None) -> None:
        """Apply the Job; one with another placement keeps its pod, which never changes, and takes the finding.

        A container that somebody injected may hold the pod open: once the finding is kept, the Job ends its pods.
        """
        name = str(job["metadata"]["name"])
        if live is None or is_placed_as(live.metadata.annotations, job):
            await self._applier.apply(job, snapshot.children.live("Job", name))
        elif not (finding := finding_on(job)).items() <= live.metadata.annotations.items():
            await self._cluster.overwrite(_part_of(job, {"metadata": {"annotations": finding}}))
        children = snapshot.children
        if live is None or live.spec.suspend or not inspections.is_kept(live, children.service):
            return
        if held_open(owned_by(children.inspect_pods, live.uid), INSPECT):
            await self._cluster.overwrite(_part_of(job, {"spec": {"suspend": True}}))

    async def _apply_workload(self, snapshot: Snapshot, wanted: tuple[Manifest, ...]) -> tuple[Snapshot, bool]:
        """The snapshot as the writes left it, so that nothing waits for another run, and whether routes are known."""
        done = await bring_in_force(self._cluster, self._applier, snapshot, wanted)
        if done.wrote:
            snapshot = replace(snapshot, children=await self._children(snapshot.service, snapshot.now))
        return snapshot, done.routes_known

    @spans.stage("observe")
    async def _observe(
        self, snapshot: Snapshot, found: Inspection, outcome: Outcome, around: tuple[DownloadStage, bool, Hold | None]
    ) -> dict[str, Any]:
        seen = self._seen(snapshot, found, outcome, around)
        facts = await pod_facts(self._http, snapshot.worth_asking)
        return observe(snapshot.subject, replace(seen, facts=facts), snapshot.now)

    def _seen(
        self, snapshot: Snapshot, found: Inspection, outcome: Outcome, around: tuple[DownloadStage, bool, Hold | None]
    ) -> Seen:
        """Everything that the status is made from, but what pods say."""
        return Seen(
            children=snapshot.children,
            inspection=found,
            planned=outcome.verdict,
            plan=outcome.record.to_status() if outcome.record else None,
            selector=selector_text(snapshot.subject.name),
            downloading=around[0].verdict,
            download=around[0].progress,
            routes_known=around[1],
            held=around[2],
            older_forms=older_forms(snapshot.service.spec),
            kept_images=earlier.kept_images(snapshot.children.workloads(snapshot.service.metadata.uid)),
        )

    async def _write(self, raw: Manifest, subject: Subject, status: dict[str, Any], now: str) -> None:
        """Write the status when it differs, and tell what is new in it as Events."""
        status = self._served(status)
        if status == subject.previous:
            return
        meta = {"name": subject.name, "namespace": subject.namespace}
        await self._cluster.apply_status({"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "status": status})
        owner = {"apiVersion": API_VERSION, "kind": KIND, "metadata": raw["metadata"]}
        for note in notes(subject.previous, status):
            logger.info("%s/%s: %s: %s", subject.namespace, subject.name, note.reason, note.message)
            try:
                await record(self._cluster, owner, note, now)
            except (UserError, StatusError) as error:  # a quota, missing rights: the status has the same words
                logger.warning("%s/%s: its Events are refused: %s", subject.namespace, subject.name, error)
                return

    def _remember_waiting(self, key: Key, status: Mapping[str, Any]) -> None:
        """Services that wait for GPUs, or for nodes to be as they ask, are looked at when a node changes."""
        progressing = c.find(status["conditions"], c.PROGRESSING) or {}
        if progressing.get("reason") in NODE_REASONS:
            self.waiting_for_gpus.add(key)
        else:
            self.waiting_for_gpus.discard(key)


def _part_of(manifest: Manifest, part: Manifest) -> Manifest:
    """A merge patch of the object."""
    meta = {key: manifest["metadata"][key] for key in ("name", "namespace")}
    named = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": meta}
    return with_part(named, part)


def not_believed(snapshot: Snapshot) -> Iterator[str]:
    """Annotations that should hold a record of an operator's and hold none; this reconcile writes them anew."""
    front, workloads = snapshot.children.service, snapshot.children.workloads(snapshot.service.metadata.uid)
    if front and (text := front.annotation(PLAN_ANNOTATION)) and recorded_plan(text) is None:
        yield f"the annotation {PLAN_ANNOTATION} of Service {front.name}"
    for row in workloads:
        if row.annotation(earlier.RENDERED_ANNOTATION) and earlier.remembered(row) is None:
            yield f"the annotation {earlier.RENDERED_ANNOTATION} of {row.kind} {row.name}"
