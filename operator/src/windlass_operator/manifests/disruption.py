"""The PodDisruptionBudget: a node that is drained takes one replica at a time, and never the only one unasked."""

from __future__ import annotations

from windlass_operator.api.v1alpha1 import LLMService
from windlass_operator.manifests.metadata import SERVER, Manifest, object_meta, pod_selector


def disruption_budget(service: LLMService, pods_per_replica: int = 1) -> Manifest:
    """At most one replica may be away; of a replica over several nodes that is each of its pods.

    A single replica may be evicted: a budget that forbids it would keep its node from ever being drained.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": object_meta(service, service.metadata.name, SERVER),
        "spec": {
            "maxUnavailable": pods_per_replica,
            "selector": {"matchLabels": pod_selector(service.metadata.name)},
            # A pod that does not answer protects nothing; without this a crash loop would hold its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
