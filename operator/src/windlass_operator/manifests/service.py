"""The Service in front of the serving pods."""

from __future__ import annotations

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.metadata import Manifest, object_meta, pod_selector

PORT = 8501
HEAD = {"apps.kubernetes.io/pod-index": "0"}  # Kubernetes sets this label on a StatefulSet's pods, from 1.28 on


def service(owner: LLMService, heads_only: bool = False) -> Manifest:
    """One cluster address for all replicas; of those over several nodes the heads alone have an API."""
    name = owner.metadata.name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_meta(owner, name, SERVER),
        "spec": {
            "type": "ClusterIP",
            "selector": {**pod_selector(name), **(HEAD if heads_only else {})},
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": "http"}],
        },
    }
