"""The PodDisruptionBudget: a drain takes one replica at a time, over however many nodes the replica is spread."""

from __future__ import annotations

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.metadata import Manifest, object_meta, pod_selector


def disruption_budget(service: LLMService) -> Manifest:
    """At most one replica may be away (docs/adr/0048-one-evicted-pod-is-one-replica.md).

    The budget is one pod for a group too: its other members stop being ready when one of them goes, and a pod that is
    not ready may be evicted. So a group whose first pod was evicted leaves as a whole, and no pod of another follows.
    A single replica may be evicted: a budget that forbids it would keep its node from ever being drained.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": object_meta(service, service.metadata.name, SERVER),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": pod_selector(service.metadata.name)},
            # A pod that does not answer protects nothing; without this a crash loop would hold its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
