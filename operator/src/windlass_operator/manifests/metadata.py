"""Names, labels and owner references that every owned object carries."""

from __future__ import annotations

import hashlib
from typing import Any

from windlass_api.crd.v1alpha1 import API_VERSION, KIND, LLMService
from windlass_api.names import COMPONENT_LABEL, MANAGED_BY_LABEL, MANAGER, SERVER, SERVICE_LABEL

Manifest = dict[str, Any]

RUN_AS = 10001
JOB_NAME_MAX = 63  # a Job's name is a label's value of its pods


def labels(name: str, component: str) -> dict[str, str]:
    """The labels of an object owned by the LLMService `name`."""
    return {
        MANAGED_BY_LABEL: MANAGER,
        "app.kubernetes.io/part-of": "windlass",
        "app.kubernetes.io/name": "llmservice",
        "app.kubernetes.io/instance": name,
        COMPONENT_LABEL: component,
        SERVICE_LABEL: name,
    }


def name_with(name: str, end: str, most: int) -> str:
    """The service's name with this end; one that would be too long is cut, and told apart by a hash of the whole."""
    if len(name) + len(end) <= most:
        return name + end
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: most - len(end) - len(digest) - 1].rstrip('-')}-{digest}{end}"


def pod_selector(name: str) -> dict[str, str]:
    """The labels that find the serving pods; a Deployment's selector never changes, so it holds the least."""
    return {COMPONENT_LABEL: SERVER, SERVICE_LABEL: name}


def selector_text(name: str) -> str:
    """The same selector as kubectl and the scale subresource write it."""
    return ",".join(f"{key}={value}" for key, value in sorted(pod_selector(name).items()))


def object_meta(service: LLMService, name: str, component: str) -> Manifest:
    """metadata of an owned object; deleting the LLMService deletes the object with it."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": service.metadata.namespace,
        "labels": labels(service.metadata.name, component),
        "ownerReferences": [owner],
    }


def pod_security() -> Manifest:
    """The pod's part of Pod Security `restricted`; no fsGroup: it would change the owners of the user's model files."""
    return {
        "runAsNonRoot": True,
        "runAsUser": RUN_AS,
        "runAsGroup": RUN_AS,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """A container's part of Pod Security `restricted`, with a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
