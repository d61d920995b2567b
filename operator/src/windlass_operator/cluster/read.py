"""Reads everything of one LLMService in one go; here its objects become records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from windlass_api.names import COMPONENT_LABEL, INSPECT, SERVER, SERVICE_LABEL
from windlass_api.objects.reading import controller_uid

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
from windlass_operator.records.base import R, Record, owned_by, parse
from windlass_operator.records.pods import ContainerStatus, Event, Pod
from windlass_operator.records.routes import HTTPRoute, Ingress
from windlass_operator.records.workloads import Deployment, Job, StatefulSet
from windlass_operator.status.children import Children
from windlass_operator.status.kubelet import containers, start_is_over
from windlass_operator.status.scheduling import claims

EVENT_OBJECTS_MAX = 4  # pods of one service fail alike; a few tell it all


async def read_children(
    cluster: Cluster, namespace: str, name: str, uid: str, download: Mapping[str, str] | None = None, now: str = ""
) -> Children:
    """Read the objects of the service's name by any maker, and others by our label. `download` labels a shared Job.

    `now` (RFC 3339) tells which start has taken longer than its probe allows; empty: none is known.
    """
    ours = {SERVICE_LABEL: name}
    named = (Deployments, Services, Budgets, Ingresses, HTTPRoutes)
    labelled = (StatefulSets, Services, NetworkPolicies, Jobs)
    # One after the other: they come from memory, where tasks would cost more than they bring.
    by_name = {kind: await cluster.get(kind, namespace, name) for kind in named}
    by_label = {kind: await cluster.find(kind, namespace, ours) for kind in labelled}
    deployment = _one(Deployment, by_name[Deployments])
    sets, jobs = _all(StatefulSet, by_label[StatefulSets]), _all(Job, by_label[Jobs])
    headless = (row for row in _all(Record, by_label[Services]) if row.name != name)
    pods = await cluster.records(Pods, Pod, namespace, ours)
    download_job, download_pods = await _download(cluster, namespace, download)
    replica_sets = await cluster.records(ReplicaSets, Record, namespace, ours)
    downloads = (download_job,) if download_job else ()
    makers = _makers(owned_by([deployment] if deployment else [], uid), replica_sets, owned_by(sets, uid))
    return Children(
        deployment=deployment,
        service=_one(Record, by_name[Services]),
        stateful_sets=owned_by(sets, uid),
        policies=owned_by(_all(Record, by_label[NetworkPolicies]), uid),
        headless=owned_by(headless, uid),
        budget=_one(Record, by_name[Budgets]),
        ingress=_one(Ingress, by_name[Ingresses]),
        http_route=_one(HTTPRoute, by_name[HTTPRoutes]),
        download_job=download_job,
        download_pods=download_pods,
        jobs=owned_by(jobs, uid),
        pods=tuple(pod for pod in _component(pods, SERVER) if pod.controller_uid in makers),
        inspect_pods=_component(pods, INSPECT),
        events=tuple(await _warnings(cluster, namespace, (*pods, *download_pods), (*jobs, *downloads, *sets), now)),
        manifests=_compared(by_name.values(), by_label.values(), uid),
    )


def _one(shape: type[R], item: Manifest | None) -> R | None:
    return None if item is None else parse(shape, item)


def _all(shape: type[R], items: Iterable[Manifest]) -> tuple[R, ...]:
    return tuple(parse(shape, item) for item in items)


def _compared(
    named: Iterable[Manifest | None], labelled: Iterable[Iterable[Manifest]], uid: str
) -> dict[tuple[str, str], Manifest]:
    """What an apply is compared with: whatever has the service's name, and of the rest its own."""
    own = (row for rows in labelled for row in rows if controller_uid(row) == uid)
    return {(str(row.get("kind")), str(row["metadata"]["name"])): row for row in (*filter(None, named), *own)}


def _makers(
    deployments: Iterable[Deployment], replica_sets: Sequence[Record], stateful_sets: Iterable[StatefulSet]
) -> frozenset[str]:
    """The uids of what makes the service's own pods: a pod that only bears our labels says nothing of the service."""
    own = (one for deployment in deployments for one in owned_by(replica_sets, deployment.uid))
    return frozenset(one.uid for one in (*own, *stateful_sets))


async def _download(
    cluster: Cluster, namespace: str, labels: Mapping[str, str] | None
) -> tuple[Job | None, tuple[Pod, ...]]:
    """The Job that fills the source, for all its services the same one, and the pods of its labels.

    Two services that begin at the same moment may make a Job each; the older stays.
    """
    if labels is None:
        return None, ()
    jobs = await cluster.records(Jobs, Job, namespace, labels)
    oldest = min(jobs, key=lambda job: (job.is_leaving, job.metadata.creation_timestamp, job.name), default=None)
    return oldest, tuple(await cluster.records(Pods, Pod, namespace, labels))


def _component(pods: Iterable[Pod], component: str) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.label(COMPONENT_LABEL) == component)


async def _warnings(
    cluster: Cluster, namespace: str, pods: Sequence[Pod], makers: Sequence[Job | StatefulSet], now: str
) -> list[Event]:
    """Warning events of what does not get on: a mount that fails, a pod that is refused, is told nowhere else."""
    made = {pod.controller_uid for pod in pods if not pod.is_over}
    barren = [row for row in makers if row.uid not in made and not _makes_none(row)]
    hanging = [pod for pod in pods if _hangs(pod, now)]
    uids = [one.uid for one in (*hanging, *barren)][:EVENT_OBJECTS_MAX]
    unbound = sorted({claim for pod in pods if _waits_for_claims(pod) for claim in claims(pod)})[:EVENT_OBJECTS_MAX]
    about = [{"involvedObject.uid": uid} for uid in uids]
    about += [{"involvedObject.kind": "PersistentVolumeClaim", "involvedObject.name": claim} for claim in unbound]
    found = await asyncio.gather(*(cluster.find(Events, namespace, fields=fields) for fields in about))
    rows = [event for events in found for event in _all(Event, events) if event.type == "Warning" or _tells_why(event)]
    return sorted(rows, key=lambda event: event.time)


def _tells_why(event: Event) -> bool:
    """The two Events that tell a trouble and are of the type Normal."""
    return event.reason in ("FailedBinding", "Killing")


def _makes_none(maker: Job | StatefulSet) -> bool:
    """A Job that has ended, or was told to end, has no pods to make any more."""
    if isinstance(maker, Job) and maker.spec.suspend:
        return True
    return any(maker.condition(word) is not None for word in ("Complete", "Failed", "SuccessCriteriaMet"))


def _hangs(pod: Pod, now: str) -> bool:
    """Placed, and not ready: it does not start, not in time, was restarted, or stopped answering."""
    if pod.is_ready or not pod.spec.node_name or pod.is_leaving:
        return False
    phase = pod.status.phase
    rows = [row for _, row in containers(pod)]
    return phase == "Pending" or (
        phase == "Running" and any(_stumbled(row) or start_is_over(pod, row, now) for row in rows)
    )


def _stumbled(container: ContainerStatus) -> bool:
    return bool(container.restart_count or container.started) or container.state.running is None


def _waits_for_claims(pod: Pod) -> bool:
    row = pod.condition("PodScheduled")
    return row is not None and "PersistentVolumeClaim" in row.message
