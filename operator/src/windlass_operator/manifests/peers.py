"""How the replicas of a service with API keys find each other to hold the keys' limits together.

The headless Service names their addresses. The NetworkPolicy keeps everybody else from the port on which they talk.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.metadata import Manifest, object_meta, pod_selector
from windlass_operator.manifests.service import HEAD

PEERS_PORT = 8504
PEERS = "WINDLASS_PEERS"


def peers_name(name: str) -> str:
    """The headless Service and the policy."""
    return f"{name}-peers"


def has_peers(service: LLMService) -> bool:
    """Whether there may be limits to hold: keys of a Secret may have some."""
    return bool(service.spec.expose.keys_secret)


def peers_variable(service: LLMService) -> tuple[str, str]:
    """Where a pod finds the others."""
    meta = service.metadata
    return PEERS, f"{peers_name(meta.name)}.{meta.namespace}.svc:{PEERS_PORT}"


def peer_objects(service: LLMService, pods: Iterable[Manifest], *, heads_only: bool, closed: bool) -> list[Manifest]:
    """The Service, and the policy for the ports that the pods of these workloads declare; none without keys."""
    if not has_peers(service):
        return []
    selector = {**pod_selector(service.metadata.name), **(HEAD if heads_only else {})}
    policy = [_policy(service, selector, list(pods))] if closed else []
    return [_headless(service, selector), *policy]


def _headless(service: LLMService, selector: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_meta(service, peers_name(service.metadata.name), SERVER),
        "spec": {
            "clusterIP": "None",
            # A pod that ends its last answers still counts them.
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [{"name": "peers", "port": PEERS_PORT, "protocol": "TCP", "targetPort": PEERS_PORT}],
        },
    }


def _policy(service: LLMService, selector: dict[str, str], workloads: list[Manifest]) -> Manifest:
    """Declared ports stay open to all; on the others only replicas reach each other."""
    specs = [one["spec"]["template"]["spec"] for one in workloads if "template" in one["spec"]]
    containers = [row for spec in specs for row in (*spec["containers"], *spec.get("initContainers", ()))]
    declared = {
        (port["containerPort"], port.get("protocol", "TCP")) for row in containers for port in row.get("ports", ())
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": object_meta(service, peers_name(service.metadata.name), SERVER),
        "spec": {
            "podSelector": {"matchLabels": selector},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": [{"port": port, "protocol": protocol} for port, protocol in sorted(declared)]},
                {
                    "from": [{"podSelector": {"matchLabels": selector}}],
                    "ports": [{"port": PEERS_PORT, "protocol": "TCP"}],
                },
            ],
        },
    }
