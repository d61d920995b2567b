"""The Deployment of a service whose replicas have one node each."""

from __future__ import annotations

from collections.abc import Mapping

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.metadata import Manifest, object_meta, pod_selector
from windlass_operator.manifests.pod import PodShape, pod_template
from windlass_operator.manifests.probes import start_seconds

SURGE, REPLACE = "Surge", "Replace"
PROGRESS_SLACK_S = 600


def deployment(
    service: LLMService, shape: PodShape, rollout: str, annotations: Mapping[str, str], replicas: int
) -> Manifest:
    """The Deployment of a planned service; `annotations` are its own, not its pods'."""
    name = service.metadata.name
    meta = object_meta(service, name, SERVER)
    if annotations:
        meta["annotations"] = dict(annotations)
    deadline_s = start_seconds(shape.weights_gib, service.spec.license.required) + PROGRESS_SLACK_S
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": replicas,
            "paused": False,  # `kubectl rollout pause` would hold up every change for ever
            "selector": {"matchLabels": pod_selector(name)},
            "strategy": _strategy(rollout),
            "progressDeadlineSeconds": deadline_s,
            "template": pod_template(service, shape),
        },
    }


def _strategy(rollout: str) -> Manifest:
    """Surge starts a new pod first; Replace ends an old one first, whose GPUs the new one waits for."""
    surge, unavailable = (1, 0) if rollout == SURGE else (0, 1)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
