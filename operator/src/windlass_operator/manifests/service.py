"""The Service in front of the serving pods."""

from __future__ import annotations

from windlass_operator.api.v1alpha1 import LLMService
from windlass_operator.manifests.metadata import SERVER, Manifest, object_meta, pod_selector

PORT = 8501


def service(owner: LLMService) -> Manifest:
    """One cluster address for all replicas."""
    name = owner.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_meta(owner, name, SERVER),
        "spec": {
            "type": "ClusterIP",
            "selector": pod_selector(name),
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": "http"}],
        },
    }
