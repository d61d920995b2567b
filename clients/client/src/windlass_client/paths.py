"""Where the API server keeps what the client reads; the paths of its REST API, and the labels that find pods."""

from __future__ import annotations

from urllib.parse import quote

from windlass_api.crd.v1alpha1 import GROUP, PLURAL, VERSION
from windlass_api.names import COMPONENT_LABEL, INSPECT, SERVER, SERVICE_LABEL

ALL_NAMESPACES = "*"
NODES = "/api/v1/nodes"
PODS_EVERYWHERE = "/api/v1/pods"


def services(namespace: str, name: str = "", part: str = "") -> str:
    """LLMServices of a namespace (`*`: of all), one of them, or its part (scale, status)."""
    inside = "" if namespace == ALL_NAMESPACES else f"/namespaces/{quote(namespace, safe='')}"
    tail = "".join(f"/{quote(step, safe='')}" for step in (name, part) if step)
    return f"/apis/{GROUP}/{VERSION}{inside}/{PLURAL}{tail}"


def core(namespace: str, plural: str, name: str = "", part: str = "") -> str:
    """Pods, events and services of a namespace."""
    tail = "".join(f"/{quote(step, safe='')}" for step in (name, part) if step)
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}{tail}"


def deployments(namespace: str) -> str:
    """Deployments of a namespace."""
    return f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/deployments"


def jobs(namespace: str) -> str:
    """Jobs of a namespace."""
    return f"/apis/batch/v1/namespaces/{quote(namespace, safe='')}/jobs"


def of_service(name: str, component: str = SERVER) -> str:
    """The label selector of a service's objects."""
    return f"{SERVICE_LABEL}={name},{COMPONENT_LABEL}={component}"


def inspection_of(name: str) -> str:
    """The label selector of what looks at the model's directory."""
    return of_service(name, INSPECT)
