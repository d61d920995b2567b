"""The ways in from outside: an Ingress, and an HTTPRoute of the Gateway API, both fit for long streamed answers."""

from __future__ import annotations

from collections.abc import Iterable

from windlass_api.crd.expose import GatewaySpec, IngressSpec
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import SERVER

from windlass_operator.manifests.allowed import INGRESS_ANNOTATIONS, refused
from windlass_operator.manifests.metadata import Manifest, object_meta
from windlass_operator.manifests.service import PORT

GATEWAY_API = "gateway.networking.k8s.io/v1"


def judge_annotations(wish: IngressSpec | None, further: Iterable[str] = ()) -> None:
    """ValueError with a sentence where an Ingress asks for an annotation that nobody allowed."""
    key = refused(wish.annotations, INGRESS_ANNOTATIONS, further) if wish else ""
    if key:
        raise ValueError(
            f"spec.expose.ingress.annotations[{key}] is not allowed: a controller that acts on it could change what "
            "all namespaces share; the administrator may allow it by the chart's value admission.ingressAnnotations"
        )


def ingress(service: LLMService, wish: IngressSpec) -> Manifest:
    """The Ingress of the service."""
    name = service.metadata.name
    meta = object_meta(service, name, SERVER)
    meta["annotations"] = {**_streaming(service.spec.expose.timeout_seconds), **wish.annotations}
    backend = {"service": {"name": name, "port": {"name": "http"}}}
    rule = {
        "host": wish.host,
        "http": {"paths": [{"path": service.spec.expose.path or "/", "pathType": "Prefix", "backend": backend}]},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": meta,
        "spec": {
            **({"ingressClassName": wish.class_name} if wish.class_name else {}),
            **({"tls": [{"hosts": [wish.host], "secretName": wish.certificate}]} if wish.certificate else {}),
            "rules": [rule],
        },
    }


def _streaming(timeout_s: int) -> dict[str, str]:
    """Ingress has no field for time-outs and buffers; these are the two usual controllers' own words."""
    return {
        "nginx.ingress.kubernetes.io/proxy-buffering": "off",
        "nginx.ingress.kubernetes.io/proxy-read-timeout": str(timeout_s),
        "nginx.ingress.kubernetes.io/proxy-send-timeout": str(timeout_s),
        "nginx.ingress.kubernetes.io/proxy-body-size": "32m",
        "haproxy.org/timeout-server": f"{timeout_s}s",
        "haproxy.org/timeout-tunnel": f"{timeout_s}s",
    }


def http_route(service: LLMService, wish: GatewaySpec) -> Manifest:
    """The HTTPRoute of the service; its Gateway is the user's."""
    name = service.metadata.name
    timeout = f"{service.spec.expose.timeout_seconds}s"
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": service.spec.expose.path or "/"}}],
        "backendRefs": [{"group": "", "kind": "Service", "name": name, "port": PORT, "weight": 1}],
        "timeouts": {"request": timeout, "backendRequest": timeout},
    }
    return {
        "apiVersion": GATEWAY_API,
        "kind": "HTTPRoute",
        "metadata": object_meta(service, name, SERVER),
        "spec": {
            "parentRefs": [_parent(one.name, one.namespace, one.section_name) for one in wish.parent_refs],
            **({"hostnames": list(wish.hostnames)} if wish.hostnames else {}),
            "rules": [rule],
        },
    }


def _parent(name: str, namespace: str, section: str) -> Manifest:
    return {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **({"sectionName": section} if section else {}),
    }
