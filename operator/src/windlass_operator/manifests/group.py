"""The objects of a service whose replicas are spread over several nodes: a StatefulSet for each replica.

Member 0 of a StatefulSet is the head, which alone has the API; docs/reference/groups.md is what its pods are told and
what they answer. A new template changes no running pod by itself (`OnDelete`): members of two templates cannot serve
together, so all pods of a replica are ended at once, by the operator (docs/adr/0023-groups-of-pods.md).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.metadata import Manifest, name_with, object_meta, pod_selector
from windlass_operator.manifests.pod import FACTS_PORT, PodShape, pod_template
from windlass_operator.manifests.probes import PERIOD_S, start_seconds

REPLICA_LABEL = "serving.windlass.dev/replica"
REVISION = "WINDLASS_GROUP_REVISION"
PORTS = (("facts", FACTS_PORT), ("group", 8503), ("engine", 29501), ("ray", 6379))
WAIT_S = 1800  # members wait so long for each other before they say who is missing
READY_PATH = "/windlass/ready"
HOST_KEY = "kubernetes.io/hostname"
NAME_MAX = 52  # the label of a StatefulSet's revision is its name and 11 more characters, at most 63


@dataclass(frozen=True, slots=True)
class GroupShape:
    """One replica: its pods, how many, and what joins them."""

    pod: PodShape
    size: int
    engine: str  # Ray | Native, as in the plan
    closed: bool = True  # whether only members reach the ports on which members trust each other


def group_objects(service: LLMService, shape: GroupShape, replicas: int) -> tuple[Manifest, ...]:
    """The Service by which members find each other, and for each replica a policy and a StatefulSet."""
    return (_headless(service), *(row for replica in range(replicas) for row in _replica(service, shape, replica)))


def headless_name(name: str) -> str:
    """The Service that gives each member a name."""
    return f"{name}-group"


def replica_name(name: str, replica: int) -> str:
    """The StatefulSet of a replica."""
    return name_with(name, f"-{replica}", NAME_MAX)


def _headless(service: LLMService) -> Manifest:
    name = service.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_meta(service, headless_name(name), SERVER),
        "spec": {
            "clusterIP": "None",
            # Followers look for their head long before it is ready.
            "publishNotReadyAddresses": True,
            "selector": pod_selector(name),
            "ports": [{"name": word, "port": port, "protocol": "TCP", "targetPort": port} for word, port in PORTS],
        },
    }


def _replica(service: LLMService, shape: GroupShape, replica: int) -> tuple[Manifest, ...]:
    one = _stateful_set(service, shape, replica)
    # The policy first: no member is up without it.
    return (_network_policy(service, one, replica), one) if shape.closed else (one,)


def _network_policy(service: LLMService, one: Manifest, replica: int) -> Manifest:
    """Ray and the engine ask nobody who they are, and take any port: all but the declared ones is for members alone."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _labelled(object_meta(service, replica_name(service.metadata.name, replica), SERVER), replica),
        "spec": {
            "podSelector": {"matchLabels": _of_replica(service, replica)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": _declared(one["spec"]["template"]["spec"])},
                {"from": [{"podSelector": {"matchLabels": _of_replica(service, replica)}}]},
            ],
        },
    }


def _declared(pod: Manifest) -> list[Manifest]:
    """The ports that the pod's containers name: the API's, the facts', and those of `spec.podTemplate`."""
    rows = [port for container in pod["containers"] for port in container.get("ports", ())]
    return [{"port": row["containerPort"], "protocol": row.get("protocol", "TCP")} for row in rows]


def _stateful_set(service: LLMService, shape: GroupShape, replica: int) -> Manifest:
    name = service.metadata.name
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _labelled(object_meta(service, replica_name(name, replica), SERVER), replica),
        "spec": {
            "replicas": shape.size,
            "serviceName": headless_name(name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": _of_replica(service, replica)},
            "template": _template(service, shape, replica),
        },
    }


def _template(service: LLMService, shape: GroupShape, replica: int) -> Manifest:
    """The pods of one replica; their revision names everything else in them."""
    place = _environment(service, shape, replica)
    pod = replace(shape.pod, env=(*shape.pod.env, *place), over=_member(service, shape, replica))
    plain = _labelled_template(pod_template(service, pod), replica)
    revision = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:10]
    named = replace(pod, env=(*pod.env, (REVISION, revision)))
    return _labelled_template(pod_template(service, named), replica)


def _environment(service: LLMService, shape: GroupShape, replica: int) -> tuple[tuple[str, str], ...]:
    meta = service.metadata
    head = f"{replica_name(meta.name, replica)}-0.{headless_name(meta.name)}.{meta.namespace}.svc"
    return (
        ("WINDLASS_GROUP_HEAD", head),
        ("WINDLASS_GROUP_SIZE", str(shape.size)),
        ("WINDLASS_GROUP_ENGINE", shape.engine.lower()),
    )


def _member(service: LLMService, shape: GroupShape, replica: int) -> Manifest:
    """What a member's pod has otherwise than one that serves alone."""
    # A follower has no API. On the facts port all members tell whether they serve, the head with its API's health.
    probe = {"httpGet": {"path": READY_PATH, "port": "facts"}}
    start_s = start_seconds(shape.pod.weights_gib, service.spec.license.required) + WAIT_S
    leave = ["python3", "-m", "windlass.group.leave", str(service.spec.deployment.drain_seconds)]
    container = {
        "name": "server",
        "startupProbe": {**probe, "failureThreshold": math.ceil(start_s / PERIOD_S)},
        "readinessProbe": probe,
        "livenessProbe": probe,
        # The head's last answers need the cards of its followers: they go after it.
        "lifecycle": {"preStop": {"exec": {"command": leave}}},
    }
    apart = {"topologyKey": HOST_KEY, "labelSelector": {"matchLabels": _of_replica(service, replica)}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return {"affinity": affinity, "containers": [container]}


def _of_replica(service: LLMService, replica: int) -> dict[str, str]:
    return {**pod_selector(service.metadata.name), REPLICA_LABEL: str(replica)}


def _labelled(meta: Manifest, replica: int) -> Manifest:
    return {**meta, "labels": {**meta["labels"], REPLICA_LABEL: str(replica)}}


def _labelled_template(template: Manifest, replica: int) -> Manifest:
    return {**template, "metadata": _labelled(template["metadata"], replica)}
