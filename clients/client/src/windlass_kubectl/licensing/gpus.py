"""Which GPUs the nodes have: what is free on each, who holds the rest, and the Job that names what is free. Pure.

A container sees the GPUs that the device plugin gave to it and no others. So a Job takes all free GPUs of its node for
a moment, and the GPUs that pods hold are named by `nvidia-smi` inside those pods.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_api.objects.claims import ENDED
from windlass_api.objects.quantity import whole
from windlass_api.objects.reading import condition_of, dig
from windlass_api.objects.records import Node, Pod, listed, mapped, node_of, pod_of
from windlass_api.plan.model import GPU_RESOURCE, MIG_RESOURCE_PREFIX

CONTAINER = "nvidia-smi"
LISTING_COMMAND = ("nvidia-smi", "-L")
JOB_LABELS = {
    "app.kubernetes.io/name": "windlass-license-gpus",
    "app.kubernetes.io/part-of": "windlass",
    "app.kubernetes.io/managed-by": "kubectl-windlass",
}
DEADLINE_S = 180
KEPT_S = 300  # a Job that a cut connection left behind goes by itself
UUID = re.compile(r"UUID: (GPU-[0-9A-Za-z-]+)\)")


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that holds GPUs of a node."""

    namespace: str
    pod: str
    container: str
    running: bool


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with GPUs: what it offers, what of it is free, and who holds the rest."""

    name: str
    ready: bool
    offered: int
    free: Mapping[str, int]
    """By resource; only what is not 0."""
    holders: tuple[Holder, ...] = ()


def gpu_nodes(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> tuple[GpuNode, ...]:
    """The nodes that offer GPUs or slices, by name."""
    by_node: dict[str, list[Pod]] = {}
    for pod in map(pod_of, pods):
        if pod.phase not in ENDED and not _is_ours(pod):
            by_node.setdefault(pod.node, []).append(pod)
    read = sorted(map(node_of, nodes), key=lambda one: one.name)
    found = (_node(node, by_node.get(node.name, [])) for node in read)
    return tuple(node for node in found if node.offered)


def _is_ours(pod: Pod) -> bool:
    """Whether an earlier run left this pod behind: it goes, and its GPUs are free."""
    name = "app.kubernetes.io/name"
    return pod.labels.get(name) == JOB_LABELS[name]


def _node(node: Node, pods: list[Pod]) -> GpuNode:
    offered = Counter(_gpus(node.allocatable))
    taken: Counter[str] = Counter()
    holders: list[Holder] = []
    for pod in pods:
        for one in pod.containers:
            if held := _gpus(one.limits):
                taken.update(held)
                holders.append(Holder(pod.namespace, pod.name, one.name, running=pod.phase == "Running"))
    free = {resource: left for resource, count in offered.items() if (left := count - taken[resource]) > 0}
    return GpuNode(node.name, node.ready, offered.total(), free, tuple(holders))


def _gpus(quantities: Mapping[str, Any]) -> dict[str, int]:
    counts = {
        str(name): whole(said) for name, said in quantities.items() if name == GPU_RESOURCE or _is_slice(str(name))
    }
    return {name: count for name, count in counts.items() if count}


def _is_slice(resource: str) -> bool:
    return resource.startswith(MIG_RESOURCE_PREFIX)


def uuids(listing: str) -> frozenset[str]:
    """The GPUs in `nvidia-smi -L` lines; the issuer's program reads the same lines, and refuses any other."""
    return frozenset(UUID.findall(listing))


@dataclass(frozen=True, slots=True)
class JobShape:
    """How the Jobs run."""

    namespace: str
    image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    runtime_class: str = ""


def job_name(node: str) -> str:
    """The same for each run, so that a Job that was left behind is found."""
    return f"windlass-license-gpus-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def job(node: GpuNode, shape: JobShape) -> dict[str, Any]:
    """The Job that takes the node's free GPUs and prints their names."""
    name = job_name(node.name)
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _only(node.name)}},
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(node, shape)],
    }
    if shape.pull_secrets:
        pod["imagePullSecrets"] = [{"name": one} for one in shape.pull_secrets]
    if shape.runtime_class:
        pod["runtimeClassName"] = shape.runtime_class
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": shape.namespace, "labels": JOB_LABELS},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_S,
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {"metadata": {"labels": JOB_LABELS}, "spec": pod},
        },
    }


def _only(node: str) -> dict[str, Any]:
    """By the node's name: its labels may say anything."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _container(node: GpuNode, shape: JobShape) -> dict[str, Any]:
    gpus = {resource: str(count) for resource, count in sorted(node.free.items())}
    return {
        "name": CONTAINER,
        "image": shape.image,
        "imagePullPolicy": shape.pull_policy,
        "command": list(LISTING_COMMAND),
        # NVIDIA's runtime brings nvidia-smi for this capability, into any image.
        "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi", **gpus}},
    }


def why_not_yet(pod: Mapping[str, Any]) -> tuple[str, bool]:
    """What keeps a Job's pod, and whether waiting is of no use."""
    for state in _states(pod):
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        said = str((waiting or ended).get("message") or "").strip()
        reason = str((waiting or ended).get("reason") or "")
        if reason in HOPELESS:
            return f"{reason}: {said or HOPELESS[reason]}", True
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled and scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "it has no node"), False
    return str(dig(pod, "status", "phase") or "Pending"), False


HOPELESS = {
    "ErrImagePull": "the image cannot be pulled",
    "ImagePullBackOff": "the image cannot be pulled",
    "ErrImageNeverPull": "the image is not on the node",
    "InvalidImageName": "the image's name is wrong",
    "CreateContainerConfigError": "the container cannot be made",
    "CreateContainerError": "the container cannot be made",
    "RunContainerError": "the container cannot be started",
    "StartError": "the container cannot be started",
}


def _states(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for one in listed(dig(pod, "status", "containerStatuses")):
        yield mapped(one.get("state"))
