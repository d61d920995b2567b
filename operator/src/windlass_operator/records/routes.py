"""The ways in from outside: what the LLMService asks for, and what Ingress and HTTPRoute came to. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass_operator.records.base import Condition, Part, Record, parse


class Place(Part, frozen=True):
    """Where a load balancer answers."""

    ip: str = ""
    hostname: str = ""


class LoadBalancer(Part, frozen=True):
    """The places of an Ingress."""

    ingress: tuple[Place, ...] = ()


class IngressSpec(Part, frozen=True):
    """Which controller the Ingress is for."""

    ingress_class_name: str = ""


class IngressStatus(Part, frozen=True):
    """Whether a controller has taken it."""

    load_balancer: LoadBalancer = LoadBalancer()


class Ingress(Record, frozen=True):
    """An Ingress."""

    spec: IngressSpec = IngressSpec()
    status: IngressStatus = IngressStatus()


class Gateway(Part, frozen=True):
    """The name of a Gateway."""

    namespace: str = ""
    name: str = ""


class RouteParent(Part, frozen=True):
    """What the controller of one Gateway says of the route."""

    parent_ref: Gateway = Gateway()
    conditions: tuple[Condition, ...] = ()


class RouteSpec(Part, frozen=True):
    """The hosts of a route."""

    hostnames: tuple[str, ...] = ()


class RouteStatus(Part, frozen=True):
    """What each controller says."""

    parents: tuple[RouteParent, ...] = ()


class HTTPRoute(Record, frozen=True):
    """An HTTPRoute."""

    spec: RouteSpec = RouteSpec()
    status: RouteStatus = RouteStatus()


class SecretName(Part, frozen=True):
    """A reference to a Secret."""

    name: str = ""


class ExposedIngress(Part, frozen=True):
    """spec.expose.ingress."""

    host: str = ""
    tls_secret: str = ""
    tls_secret_ref: SecretName | None = None


class ExposedGateway(Part, frozen=True):
    """spec.expose.gateway."""

    parent_refs: tuple[Gateway, ...] = ()


class Expose(Part, frozen=True):
    """spec.expose of an LLMService as written."""

    ingress: ExposedIngress | None = None
    gateway: ExposedGateway | None = None
    path: str = ""


def expose_of(written: object) -> Expose:
    """spec.expose; nothing is exposed where it cannot be read, as in a resource that is refused."""
    try:
        return parse(Expose, written) if isinstance(written, Mapping) else Expose()
    except msgspec.ValidationError:
        return Expose()
