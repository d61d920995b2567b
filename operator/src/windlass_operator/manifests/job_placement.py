"""Where the Jobs of a service run, and what they ask for: on the nodes that its serving pods may use.

A volume may be reachable from some nodes alone, so a Job bears the taints and follows the selectors of the pods that it
works for. A Job's pod never changes: an annotation names the placement that a Job was made with, and a Job of a service
without any has none. So an upgrade of the operator finds its Jobs as it would make them. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.nodes import REQUIRED, node_selector, required_affinity, tolerations

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.overlay import with_part

PLACED_ANNOTATION = "serving.windlass.dev/placed"


def placed(pod: Manifest, services: Sequence[LLMService], resources: Mapping[str, Any] | None) -> Manifest:
    """The Job's pod on the services' nodes, with the requests and limits that the installation gives.

    Services may share a Job: every service's tolerations are borne, and the first that limits the nodes decides.
    """
    part = next((one for service in services if (one := _nodes(service, pod.get("nodeSelector", {})))), {})
    borne = [
        row
        for row in _unique(row for service in services for row in tolerations(service.spec))
        if row not in pod["tolerations"]
    ]
    out = with_part(pod, {**part, **({"tolerations": borne} if borne else {})})
    if resources is None:
        return out
    own, *others = out["containers"]
    return {**out, "containers": [{**own, "resources": dict(resources)}, *others]}


def placement_mark(placed_pod: Manifest, plain_pod: Manifest) -> dict[str, str]:
    """The annotation that names the placement; none for a pod that nothing places."""
    if placed_pod == plain_pod:
        return {}
    text = json.dumps(placed_pod, sort_keys=True)
    return {PLACED_ANNOTATION: hashlib.sha256(text.encode()).hexdigest()[:16]}


def is_placed_as(annotations: Mapping[str, str], job: Manifest) -> bool:
    """Whether a Job with these annotations was made with the placement of the rendered Job."""
    rendered: Mapping[str, str] = job["metadata"].get("annotations", {})
    return annotations.get(PLACED_ANNOTATION, "") == rendered.get(PLACED_ANNOTATION, "")


def _nodes(service: LLMService, group: Mapping[str, str]) -> Manifest:
    """The node selector and the required node affinity of the serving pods; neighbours of theirs concern no Job."""
    terms = required_affinity(service.spec)
    selector = node_selector(service.spec, group) if node_selector(service.spec) else {}
    return {
        **({"nodeSelector": selector} if selector else {}),
        **({"affinity": {"nodeAffinity": {REQUIRED: terms}}} if terms else {}),
    }


def _unique(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())
