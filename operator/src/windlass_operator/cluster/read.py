"""Reads everything of one LLMService in one go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass_api.names import COMPONENT_LABEL, INSPECT, SERVER, SERVICE_LABEL
from windlass_api.objects.reading import (
    Object,
    condition_of,
    controller_uid,
    dig,
    is_leaving,
    is_ready,
    name_of,
    owned_by,
    uid_of,
)

from windlass_operator.cluster.kinds import (
    Budgets,
    Deployments,
    Events,
    HTTPRoutes,
    Ingresses,
    Jobs,
    NetworkPolicies,
    Pods,
    ReplicaSets,
    Services,
    StatefulSets,
)
from windlass_operator.cluster.protocol import Cluster
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.status.children import Children
from windlass_operator.status.kubelet import containers, start_is_over
from windlass_operator.status.scheduling import claims

EVENT_OBJECTS_MAX = 4  # pods of one service fail alike; a few tell it all


async def read_children(
    cluster: Cluster, namespace: str, name: str, uid: str, download: Download | None = None, now: str = ""
) -> Children:
    """What the service's name stands for, whoever made it; the rest by our label. `download` names a shared Job.

    `now` (RFC 3339) tells which start has taken longer than its probe allows; empty: none is known.
    """
    ours = {SERVICE_LABEL: name}
    named = (Deployments, Services, Budgets, Ingresses, HTTPRoutes)
    labelled = (StatefulSets, Services, NetworkPolicies, Jobs, Pods)
    # One after the other: they come from memory, where tasks would cost more than they bring.
    deployment, service, budget, ingress, route = [await cluster.get(kind, namespace, name) for kind in named]
    sets, services, policies, jobs, pods = [await cluster.find(kind, namespace, ours) for kind in labelled]
    download_job, download_pods = await _download(cluster, namespace, download)
    replica_sets = await cluster.find(ReplicaSets, namespace, ours)
    makers = _makers(owned_by(filter(None, [deployment]), uid), replica_sets, owned_by(sets, uid))
    return Children(
        deployment=deployment,
        service=service,
        stateful_sets=owned_by(sets, uid),
        policies=owned_by(policies, uid),
        headless=owned_by((row for row in services if name_of(row) != name), uid),
        budget=budget,
        ingress=ingress,
        http_route=route,
        download_job=download_job,
        download_pods=download_pods,
        jobs=owned_by(jobs, uid),
        pods=tuple(pod for pod in _component(pods, SERVER) if controller_uid(pod) in makers),
        inspect_pods=_component(pods, INSPECT),
        events=tuple(await _warnings(cluster, namespace, (*pods, *download_pods), (*jobs, *sets), now)),
    )


def _makers(
    deployments: Iterable[Object], replica_sets: Sequence[Manifest], stateful_sets: Iterable[Object]
) -> frozenset[str]:
    """The uids of what makes the service's own pods: a pod that only bears our labels says nothing of the service."""
    own = (one for deployment in deployments for one in owned_by(replica_sets, uid_of(deployment)))
    return frozenset(uid_of(one) for one in (*own, *stateful_sets))


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
    pods = await cluster.find(Pods, namespace, download.pod_labels)
    return await cluster.get(Jobs, namespace, download.job), tuple(pods)


def _component(pods: Iterable[Manifest], component: str) -> tuple[Manifest, ...]:
    return tuple(pod for pod in pods if dig(pod, "metadata", "labels", COMPONENT_LABEL) == component)


async def _warnings(
    cluster: Cluster, namespace: str, pods: Sequence[Manifest], makers: Sequence[Manifest], now: str
) -> list[Manifest]:
    """Warning events of what does not get on: a mount that fails, a pod that is refused, is told nowhere else."""
    made = {controller_uid(pod) for pod in pods}
    barren = [row for row in makers if uid_of(row) not in made and not _is_over(row)]
    hanging = [pod for pod in pods if _hangs(pod, now)]
    uids = [uid_of(one) for one in (*hanging, *barren)][:EVENT_OBJECTS_MAX]
    unbound = sorted({claim for pod in pods if _waits_for_claims(pod) for claim in claims(pod)})[:EVENT_OBJECTS_MAX]
    about = [{"involvedObject.uid": uid} for uid in uids]
    about += [{"involvedObject.kind": "PersistentVolumeClaim", "involvedObject.name": claim} for claim in unbound]
    found = await asyncio.gather(*(cluster.find(Events, namespace, fields=fields) for fields in about))
    rows = [event for events in found for event in events if event.get("type") == "Warning" or _tells_why(event)]
    return sorted(rows, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))


def _tells_why(event: Manifest) -> bool:
    """The two Events that tell a trouble and are of the type Normal."""
    return event.get("reason") in ("FailedBinding", "Killing")


def _is_over(maker: Manifest) -> bool:
    """A Job that has ended has no pods to make any more."""
    return any(condition_of(maker, word) is not None for word in ("Complete", "Failed", "SuccessCriteriaMet"))


def _hangs(pod: Manifest, now: str) -> bool:
    """Placed, and not ready: it does not start, not in time, was restarted, or stopped answering."""
    if is_ready(pod) or not dig(pod, "spec", "nodeName") or is_leaving(pod):
        return False
    phase = dig(pod, "status", "phase")
    rows = [row for _, row in containers(pod)]
    return phase == "Pending" or (
        phase == "Running" and any(_stumbled(row) or start_is_over(pod, row, now) for row in rows)
    )


def _stumbled(container: Mapping[str, Any]) -> bool:
    return bool(container.get("restartCount") or container.get("started")) or dig(container, "state", "running") is None


def _waits_for_claims(pod: Manifest) -> bool:
    row = condition_of(pod, "PodScheduled")
    return row is not None and "PersistentVolumeClaim" in str(row.get("message") or "")
