"""Reads everything of one LLMService in one go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass_operator.cluster.client import Cluster, Manifest
from windlass_operator.cluster.kinds import (
    Budgets,
    Deployments,
    Events,
    HTTPRoutes,
    Ingresses,
    Jobs,
    Pods,
    Services,
    StatefulSets,
)
from windlass_operator.manifests.metadata import COMPONENT_LABEL, INSPECT, SERVER, SERVICE_LABEL
from windlass_operator.status.children import Children, dig, is_ready, name_of, owned_by, uid_of

EVENT_PODS_MAX = 4  # pods of one service fail alike; a few tell it all


async def read_children(
    cluster: Cluster, namespace: str, name: str, uid: str, download: Download | None = None
) -> Children:
    """What the service's name stands for, whoever made it; the rest by our label. `download` names a shared Job."""
    ours = {SERVICE_LABEL: name}
    named = (Deployments, Services, Budgets, Ingresses, HTTPRoutes)
    deployment, service, budget, ingress, route = await asyncio.gather(
        *(cluster.get(kind, namespace, name) for kind in named)
    )
    sets, services, jobs, pods = await asyncio.gather(
        *(cluster.find(kind, namespace, ours) for kind in (StatefulSets, Services, Jobs, Pods))
    )
    download_job, download_pods = await _download(cluster, namespace, download)
    return Children(
        deployment=deployment,
        service=service,
        stateful_sets=owned_by(sets, uid),
        headless=owned_by((row for row in services if name_of(row) != name), uid),
        budget=budget,
        ingress=ingress,
        http_route=route,
        download_job=download_job,
        download_pods=download_pods,
        jobs=owned_by(jobs, uid),
        pods=_component(pods, SERVER),
        inspect_pods=_component(pods, INSPECT),
        events=tuple(await _warnings(cluster, namespace, (*pods, *download_pods))),
    )


@dataclass(frozen=True, slots=True)
class Download:
    """How the Job that fills the source is found: it may belong to several services."""

    job: str
    pod_labels: Mapping[str, str]


async def _download(
    cluster: Cluster, namespace: str, download: Download | None
) -> tuple[Manifest | None, tuple[Manifest, ...]]:
    if download is None:
        return None, ()
    job, pods = await asyncio.gather(
        cluster.get(Jobs, namespace, download.job), cluster.find(Pods, namespace, download.pod_labels)
    )
    return job, tuple(pods)


def _component(pods: Iterable[Manifest], component: str) -> tuple[Manifest, ...]:
    return tuple(pod for pod in pods if dig(pod, "metadata", "labels", COMPONENT_LABEL) == component)


async def _warnings(cluster: Cluster, namespace: str, pods: Iterable[Manifest]) -> list[Manifest]:
    """Warning events of pods that are placed and do not start: a mount that fails is told nowhere else."""
    uids = [uid_of(pod) for pod in pods if _hangs(pod)][:EVENT_PODS_MAX]
    found = await asyncio.gather(
        *(cluster.find(Events, namespace, fields={"involvedObject.uid": uid, "type": "Warning"}) for uid in uids)
    )
    rows = [event for events in found for event in events]
    return sorted(rows, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))


def _hangs(pod: Manifest) -> bool:
    if is_ready(pod) or dig(pod, "spec", "nodeName") is None or dig(pod, "status", "phase") != "Pending":
        return False
    return not dig(pod, "metadata", "deletionTimestamp")
