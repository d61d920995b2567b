"""The serving pod: one container that runs the planned command on the model's read-only volume.

A Deployment holds it for one node a replica, a StatefulSet for a replica over several nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.environment import (
    CACHE_PATH,
    KEYS_PATH,
    LICENSE_PATH,
    LICENSE_TOKEN,
    environment,
)
from windlass_operator.manifests.metadata import Manifest, container_security, labels, pod_security, pod_selector
from windlass_operator.manifests.overlay import laid_over, with_part
from windlass_operator.manifests.probes import serving_probes
from windlass_operator.manifests.sources import Mount, base_model, serving_mounts, volumes

GPU = "nvidia.com/gpu"
HTTP_PORT, FACTS_PORT = 8501, 8502
ENDPOINTS_GONE_S = 5  # what it takes until nobody sends new requests to a pod that is told to go
GRACE_BEYOND_DRAIN_S = 30
RESTARTED_ANNOTATION = "serving.windlass.dev/restartedAt"  # of the service; another value replaces its pods
LICENSE_AUDIENCE = "windlass-license-server"  # of the token by which the license server knows the pod
LICENSE_TOKEN_S = 3600  # until it expires; the kubelet renews it after four fifths
TOPOLOGY_KEYS = {"Node": "kubernetes.io/hostname", "Zone": "topology.kubernetes.io/zone"}


@dataclass(frozen=True, slots=True)
class PodShape:
    """What the plan and the operator's settings decide of a serving pod; figures are of one pod."""

    image: str
    args: tuple[str, ...]
    cpu: str
    memory: str
    shm: str
    command: tuple[str, ...] = ()  # empty: the image's own
    gpus: int = 0
    gpu_resource: str = GPU  # by which the GPUs are asked for: whole cards, or one kind of slice
    weights_gib: float = 0.0
    node_selector: tuple[tuple[str, str], ...] = ()
    license_addresses: tuple[str, ...] = ()
    license_keys: str = ""  # PEM text of the issuers' public keys
    base: str = ""  # path of an adapter's base on the model's volume; empty: the model has none, or the spec names it
    env: tuple[tuple[str, str], ...] = ()  # beside those that every serving pod gets
    over: Manifest = field(default_factory=dict)  # laid over the pod before the user's own template


def pod_template(service: LLMService, shape: PodShape) -> Manifest:
    """metadata and spec of the serving pods."""
    wish = service.spec.pod_template
    name = service.metadata.name
    meta: Manifest = {"labels": {**wish.labels, **labels(name, SERVER)}}
    restarted = service.metadata.annotations.get(RESTARTED_ANNOTATION)
    told = {**wish.annotations, **({RESTARTED_ANNOTATION: restarted} if restarted else {})}
    if told:
        meta["annotations"] = told
    return {"metadata": meta, "spec": laid_over(with_part(_pod(service, shape), shape.over), wish.spec.to_piece())}


def _pod(service: LLMService, shape: PodShape) -> Manifest:
    mounts = serving_mounts(service, shape.base)
    secrets = [{"name": secret.name} for secret in service.spec.image.pull_secrets]
    drain_s = service.spec.deployment.drain_seconds
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a Service called vllm would set VLLM_PORT, which vLLM reads
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": drain_s + ENDPOINTS_GONE_S + GRACE_BEYOND_DRAIN_S,
        **_scheduling(service, shape),
        **({"imagePullSecrets": secrets} if secrets else {}),
        "containers": [_container(service, shape, mounts)],
        "volumes": [
            *volumes(mounts),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shape.shm}},
            {"name": "cache", **_cache(service)},
            {"name": "tmp", "emptyDir": {}},
            *_keys_volume(service),
            *_license_volume(service),
        ],
    }


def _scheduling(service: LLMService, shape: PodShape) -> Manifest:
    wish = service.spec.scheduling
    selector = {**wish.node_selector, **dict(shape.node_selector)}
    taints = dict.fromkeys((GPU, shape.gpu_resource))
    tolerations: list[Manifest] = [{"key": key, "operator": "Exists"} for key in taints] if shape.gpus else []
    tolerations += [one.model_dump(by_alias=True, exclude_defaults=True) for one in wish.tolerations]
    key = TOPOLOGY_KEYS.get(wish.topology_spread)
    spread = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": pod_selector(service.metadata.name)},
    }
    return {
        **({"nodeSelector": selector} if selector else {}),
        **({"tolerations": tolerations} if tolerations else {}),
        **({"priorityClassName": wish.priority_class_name} if wish.priority_class_name else {}),
        **({"topologySpreadConstraints": [spread]} if key else {}),
    }


def _container(service: LLMService, shape: PodShape, mounts: tuple[Mount, ...]) -> Manifest:
    base = base_model(service, shape.base)
    told = (*shape.env, *((("BASE_MODEL", base),) if base else ()))
    further = [{"name": name, "value": value} for name, value in told]
    return {
        "name": "server",
        "image": shape.image,
        "imagePullPolicy": service.spec.image.pull_policy,
        "command": list(shape.command) or ["windlass"],
        "args": list(shape.args),
        "env": environment(service, shape.license_addresses, shape.license_keys, further),
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "facts", "containerPort": FACTS_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(shape),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # The server ends its answers by itself when it is told to stop; it is told after nobody sends it new ones.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(ENDPOINTS_GONE_S)]}}},
        **serving_probes(shape.weights_gib, service.spec.license.required),
        "volumeMounts": [
            *(one.to_mount() for one in mounts),
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own, not this process's
            {"name": "cache", "mountPath": CACHE_PATH},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - as above
            *([{"name": "api-keys", "mountPath": KEYS_PATH, "readOnly": True}] if _keys_volume(service) else []),
            *([{"name": "license", "mountPath": LICENSE_PATH, "readOnly": True}] if _license_volume(service) else []),
        ],
    }


def _cache(service: LLMService) -> Manifest:
    wish = service.spec.cache
    if wish.claim:
        return {"persistentVolumeClaim": {"claimName": wish.claim}}
    return {"emptyDir": {"sizeLimit": wish.size_limit} if wish.size_limit else {}}


def _keys_volume(service: LLMService) -> list[Manifest]:
    """Mounted as a directory, which the kubelet brings up to date; a mounted single key would stay as it was."""
    secret = service.spec.expose.keys_secret
    return [{"name": "api-keys", "secret": {"secretName": secret, "defaultMode": 0o444}}] if secret else []


def _license_volume(service: LLMService) -> list[Manifest]:
    """The pod's token for the license server, and for nobody else; the kubelet renews the file."""
    token = {"audience": LICENSE_AUDIENCE, "expirationSeconds": LICENSE_TOKEN_S, "path": LICENSE_TOKEN}
    projected = {"defaultMode": 0o444, "sources": [{"serviceAccountToken": token}]}
    return [{"name": "license", "projected": projected}] if service.spec.license.required else []


def _resources(shape: PodShape) -> Manifest:
    """CPU and memory are requests only: a limit by too small a figure would kill a pod that the node can hold."""
    requests = {"cpu": shape.cpu, "memory": shape.memory}
    return {"requests": requests, **({"limits": {shape.gpu_resource: str(shape.gpus)}} if shape.gpus else {})}
