"""The Deployment of the serving pods: one pod is one replica on one node."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from windlass_operator.api.v1alpha1 import LLMService
from windlass_operator.manifests.metadata import (
    SERVER,
    Manifest,
    container_security,
    labels,
    object_meta,
    pod_security,
    pod_selector,
)
from windlass_operator.manifests.volume import MODEL_PATH, VOLUME_NAME, model_volume

GPU = "nvidia.com/gpu"
HTTP_PORT, FACTS_PORT = 8501, 8502
PROBE_PERIOD_S = 10
START_FIRST_S = 900  # import, compile and warm-up: peers measured 195 s of compiling on a 27B model
START_GIB_S = 30  # a GiB of weights over a slow shared volume
LICENSE_WAIT_S = 7 * 24 * 3600  # a refused license is waited out inside the pod; the kubelet must not shoot it


@dataclass(frozen=True, slots=True)
class PodShape:
    """What the plan and the operator's settings decide of a serving pod."""

    image: str
    args: tuple[str, ...]
    cpu: str
    memory: str
    shm: str
    command: tuple[str, ...] = ()  # empty: the image's own
    gpus: int = 0
    weights_gib: float = 0.0
    node_selector: tuple[tuple[str, str], ...] = ()
    license_addresses: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = field(default=())  # of the Deployment, not of its pods


def deployment(service: LLMService, shape: PodShape) -> Manifest:
    """The Deployment of a planned service."""
    name = service.metadata.name
    meta = object_meta(service, name, SERVER)
    if shape.annotations:
        meta["annotations"] = dict(shape.annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": service.spec.replicas,
            "selector": {"matchLabels": pod_selector(name)},
            "strategy": _strategy(shape.gpus),
            "progressDeadlineSeconds": start_seconds(shape.weights_gib, service.spec.license.required) + 600,
            "template": {"metadata": {"labels": labels(name, SERVER)}, "spec": _pod(service, shape)},
        },
    }


def start_seconds(weights_gib: float, license_required: bool) -> int:
    """How long a start may take before the kubelet gives up on it."""
    load_s = START_FIRST_S + math.ceil(weights_gib * START_GIB_S)
    return load_s + (LICENSE_WAIT_S if license_required else 0)


def _strategy(gpus: int) -> Manifest:
    """With GPUs the new pod waits for those that the old one holds, so the old one goes first."""
    surge, unavailable = (0, 1) if gpus else (1, 0)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _pod(service: LLMService, shape: PodShape) -> Manifest:
    volume = model_volume(service.spec.model.source)
    secrets = [{"name": secret.name} for secret in service.spec.image.pull_secrets]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a Service called vllm would set VLLM_PORT, which vLLM reads
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": 60,
        **({"nodeSelector": dict(shape.node_selector)} if shape.node_selector else {}),
        **({"tolerations": [{"key": GPU, "operator": "Exists"}]} if shape.gpus else {}),
        **({"imagePullSecrets": secrets} if secrets else {}),
        "containers": [_container(service, shape, volume.served_sub_path)],
        "volumes": [
            {"name": VOLUME_NAME, **volume.served},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shape.shm}},
            {"name": "cache", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def _container(service: LLMService, shape: PodShape, sub_path: str) -> Manifest:
    return {
        "name": "server",
        "image": shape.image,
        "imagePullPolicy": service.spec.image.pull_policy,
        "command": list(shape.command) or ["windlass"],
        "args": list(shape.args),
        "env": _env(service, shape),
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "facts", "containerPort": FACTS_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(shape),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **_probes(shape.weights_gib, service.spec.license.required),
        "volumeMounts": [
            {
                "name": VOLUME_NAME,
                "mountPath": MODEL_PATH,
                "readOnly": True,
                **({"subPath": sub_path} if sub_path else {}),
            },
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own, not this process's
            {"name": "cache", "mountPath": "/cache"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - as above
        ],
    }


def _env(service: LLMService, shape: PodShape) -> list[Manifest]:
    """Our variables, then the user's, which win by name."""
    addresses = service.spec.license.addresses or shape.license_addresses
    ours: list[Manifest] = [
        {"name": "MODEL_ID", "value": service.spec.model.id},
        {"name": "WINDLASS_SERVICE", "value": service.metadata.name},
        _downward("WINDLASS_POD_NAME", "metadata.name"),
        _downward("WINDLASS_POD_NAMESPACE", "metadata.namespace"),
        _downward("WINDLASS_POD_UID", "metadata.uid"),
        {"name": "WINDLASS_LICENSE_REQUIRED", "value": str(service.spec.license.required).lower()},
        *([{"name": "WINDLASS_LS_ADDR", "value": ",".join(addresses)}] if addresses else []),
        {"name": "HOME", "value": "/cache"},
        {"name": "XDG_CACHE_HOME", "value": "/cache"},
        {"name": "XDG_CONFIG_HOME", "value": "/cache/config"},
    ]
    users: list[Manifest] = [{"name": one.name, "value": one.value} for one in service.spec.env]
    named = {one["name"]: one for one in [*ours, *users]}
    return list(named.values())


def _downward(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _resources(shape: PodShape) -> Manifest:
    """CPU and memory are requests only: a limit by too small a figure would kill a pod that the node can hold."""
    requests = {"cpu": shape.cpu, "memory": shape.memory}
    return {"requests": requests, **({"limits": {GPU: str(shape.gpus)}} if shape.gpus else {})}


def _probes(weights_gib: float, license_required: bool) -> Manifest:
    """Start-up as long as the weights need; then a slow answer makes a pod unready soon and restarts it late."""
    tries = math.ceil(start_seconds(weights_gib, license_required) / PROBE_PERIOD_S)
    return {
        "startupProbe": _health(period_s=PROBE_PERIOD_S, timeout_s=5, tries=tries),
        "readinessProbe": _health(period_s=5, timeout_s=5, tries=3),
        "livenessProbe": _health(period_s=10, timeout_s=10, tries=12),
    }


def _health(*, period_s: int, timeout_s: int, tries: int) -> Manifest:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": period_s,
        "timeoutSeconds": timeout_s,
        "failureThreshold": tries,
    }
