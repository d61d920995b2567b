"""The download stage: the Job that fills the source from a hub, where the spec asks for one.

One Job for each target in a namespace, owned by every service that wants it. Until it is done nothing looks at the
directory and nothing new is served; what is served already goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic import ValidationError
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import COMPONENT_LABEL, DOWNLOAD
from windlass_base.untrusted_json import parsed

from windlass_operator.cluster.apply import Applier
from windlass_operator.cluster.facts import first_answer
from windlass_operator.cluster.kinds import Jobs, LLMServices
from windlass_operator.cluster.protocol import Cluster
from windlass_operator.manifests.download_job import (
    download_digest,
    download_job,
    download_labels,
    download_owners,
)
from windlass_operator.manifests.job_placement import is_placed_as
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.records.base import owned_by
from windlass_operator.records.workloads import Job
from windlass_operator.settings import Settings
from windlass_operator.spans import spans
from windlass_operator.status import conditions as c
from windlass_operator.status import download as downloads
from windlass_operator.status import reasons
from windlass_operator.status.children import Children
from windlass_operator.status.conditions import Verdict
from windlass_operator.status.download import FINISHED_ANNOTATION, RESULT_ANNOTATION, Download, State
from windlass_operator.status.jobs import held_open

NO_ANSWER = "no answer from the hub"  # how the download Job begins its words for a hub that cannot be reached
RECREATE_S = 1.0  # between deleting a Job and making it anew


@dataclass(frozen=True, slots=True)
class DownloadStage:
    """How far it is: whether the source may be looked at, and the words for the status."""

    done: bool = True
    verdict: Verdict | None = None  # None when no download is asked for
    progress: Mapping[str, Any] | None = None
    again_in_s: float | None = None


NOT_ASKED = DownloadStage()


def where(service: LLMService) -> dict[str, str] | None:
    """The labels that find the Job of the service's download; None when it asks for none."""
    return None if service.spec.model.download is None else download_labels(service)


@dataclass(frozen=True, slots=True)
class Ask:
    """A service that may ask for a download; times are RFC 3339, empty where it never failed."""

    service: LLMService
    children: Children
    failing_since: str
    now: str
    has_asked: bool = True  # whether its last status has a download


@spans.stage("download")
async def advance(
    cluster: Cluster, applier: Applier, http: httpx2.AsyncClient, settings: Settings, ask: Ask
) -> DownloadStage:
    """Keep the Job that the download needs, and say how far it is."""
    if ask.service.spec.model.download is None:
        if ask.has_asked:
            await _leave_others(cluster, ask.service, None)
        return NOT_ASKED
    children, job = ask.children, ask.children.download_job
    await _leave_others(cluster, ask.service, job)
    if job is None:
        sharers = await _sharers(cluster, ask.service)
        await applier.create(_job(sharers, settings))
    if job is None or job.is_leaving:
        return _stage_of(downloads.WAITING, None)
    mine = owned_by(children.download_pods, job.uid)
    state = downloads.read(job, mine, children.events)
    wait_s = downloads.retry_in_s(state, ask.failing_since, ask.now) if state.state is State.FAILED else None
    if wait_s == 0:
        await cluster.delete(Jobs, ask.service.metadata.namespace, job.name)
        return _stage_of(downloads.WAITING, None)
    if state.state is State.STUCK:
        rendered = _job(await _sharers(cluster, ask.service), settings)
        if not is_placed_as(job.metadata.annotations, rendered):  # its pod cannot start, and never changes
            await cluster.delete(Jobs, ask.service.metadata.namespace, job.name)
            return _stage_of(state, None, RECREATE_S)
    await _keep(cluster, ask.service, job, state, ends=held_open(mine, DOWNLOAD))
    running = state.state is State.RUNNING
    facts = await first_answer(http, mine) if running else None
    return _stage_of(state, facts, wait_s)


def _job(sharers: Sequence[LLMService], settings: Settings) -> Manifest:
    environment = dict((*settings.download_env, *settings.job_log_env))
    return download_job(
        sharers, settings.operator_image, settings.image_pull_policy, environment, settings.download_resources
    )


async def _leave_others(cluster: Cluster, service: LLMService, chosen: Job | None) -> None:
    """Leave all download Jobs but the chosen one; a Job that nobody else owns is deleted.

    Such a Job could still write into the directory. Its kept result says what the directory held, not what it holds.
    A Job of the same labels that was made since the snapshot stays until one is chosen.
    """
    meta, wanted = service.metadata, where(service)
    for job in await cluster.records(Jobs, Job, meta.namespace, {COMPONENT_LABEL: DOWNLOAD}):
        owners = {row.uid for row in job.metadata.owner_references}
        same = wanted is not None and wanted.items() <= job.metadata.labels.items()
        if job.is_leaving or meta.uid not in owners or (same and (chosen is None or job.name == chosen.name)):
            continue
        if owners == {meta.uid}:
            await cluster.delete(Jobs, meta.namespace, job.name)
        else:
            await _disown(cluster, service, job.name)


async def _disown(cluster: Cluster, service: LLMService, name: str) -> None:
    """Take the service off the Job's owners, unless the Job has changed since it was read."""
    live = await cluster.get(Jobs, service.metadata.namespace, name)
    if live is None:
        return
    read = live["metadata"]
    meta: Manifest = {key: read[key] for key in ("name", "namespace", "resourceVersion") if key in read}
    meta["ownerReferences"] = [row for row in read["ownerReferences"] if row.get("uid") != service.metadata.uid]
    await cluster.overwrite({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta})


async def _sharers(cluster: Cluster, service: LLMService) -> Sequence[LLMService]:
    """All services of the namespace that want the same; those that cannot be read are not asked."""
    digest, found = download_digest(service), {service.metadata.uid: service}
    for raw in await cluster.find(LLMServices, service.metadata.namespace):
        try:
            other = LLMService.model_validate(raw)
            same = other.spec.model.download is not None and download_digest(other) == digest
        except (ValidationError, ValueError):
            continue
        if same and not other.metadata.deletion_timestamp:
            found[other.metadata.uid] = other
    return tuple(found.values())


async def _keep(cluster: Cluster, service: LLMService, job: Job, state: Download, *, ends: bool) -> None:
    """Be one of the Job's owners, and keep its last word on it, so that it outlives the pod.

    `ends` is whether another container holds the pod open: with its last word kept, the Job ends its pods.
    """
    said = {RESULT_ANNOTATION: state.text, FINISHED_ANNOTATION: state.finished_at} if state.text else {}
    ours = any(row.uid == service.metadata.uid for row in job.metadata.owner_references)
    ends = ends and bool(said) and not job.spec.suspend
    if ours and said.items() <= job.metadata.annotations.items() and not ends:
        return
    sharers = await _sharers(cluster, service)
    wanted = download_owners(sharers)
    meta: Manifest = {
        "name": job.name,
        "namespace": service.metadata.namespace,
        "ownerReferences": wanted,
        "annotations": said,
    }
    spec = {"spec": {"suspend": True}} if ends else {}
    await cluster.overwrite({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, **spec})


def _stage_of(state: Download, facts: object, again_in_s: float | None = None) -> DownloadStage:
    """The stage by what the Job and its running pod's facts say."""
    if state.state is State.DONE:
        done = downloads.finished(parsed(state.text)["download"])
        return DownloadStage(True, Verdict(c.FALSE, "Downloaded", state.message), done or None)
    if state.state is State.RUNNING:
        counts = downloads.progress(facts)
        words = "; ".join(one for one in (downloads.line(counts), _why(facts) or state.message) if one)
        return DownloadStage(False, c.yes("Downloading", words), counts or None)
    return DownloadStage(False, c.no(state.reason, state.message), None, again_in_s)


def _why(facts: object) -> str:
    """The trouble of this moment; a hub that answers nothing at all has the remedy for the way to it."""
    trouble = downloads.trouble(facts)
    if trouble.startswith(NO_ANSWER):
        return reasons.explain("HubUnreachable", trouble)
    return f"{trouble}; tried again" if trouble else ""
