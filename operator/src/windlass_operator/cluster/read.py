"""Reads everything of one LLMService in one go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass_operator.cluster.client import Cluster, Manifest
from windlass_operator.cluster.kinds import Deployments, Events, Jobs, Pods, Services
from windlass_operator.manifests.metadata import COMPONENT_LABEL, INSPECT, SERVER, SERVICE_LABEL
from windlass_operator.status.children import Children, dig, is_ready, owned_by, uid_of

EVENT_PODS_MAX = 4  # pods of one service fail alike; a few tell it all


async def read_children(cluster: Cluster, namespace: str, name: str, uid: str) -> Children:
    """Deployment and Service by name (whoever made them), Jobs and pods by our label."""
    ours = {SERVICE_LABEL: name}
    deployment, service, jobs, pods = await asyncio.gather(
        cluster.get(Deployments, namespace, name),
        cluster.get(Services, namespace, name),
        cluster.find(Jobs, namespace, ours),
        cluster.find(Pods, namespace, ours),
    )
    return Children(
        deployment=deployment,
        service=service,
        jobs=owned_by(jobs, uid),
        pods=_component(pods, SERVER),
        inspect_pods=_component(pods, INSPECT),
        events=tuple(await _warnings(cluster, namespace, pods)),
    )


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
