"""Whether the ways in from outside are open, and where they lead. Pure."""

from __future__ import annotations

from windlass_operator.records.base import condition
from windlass_operator.records.routes import Expose, HTTPRoute, Ingress
from windlass_operator.status import conditions as c
from windlass_operator.status.conditions import Verdict

PORT = 8501
PARENT_TYPES = ("Accepted", "ResolvedRefs")


def route_ready(expose: Expose, ingress: Ingress | None, route: HTTPRoute | None, known: bool) -> Verdict:
    """`known` says whether the cluster serves HTTPRoutes at all."""
    parts = []
    if expose.ingress:
        parts.append(_ingress(expose.ingress.host, ingress))
    if expose.gateway:
        parts.append(_gateway(_parents(expose), route) if known else _no_gateway(_parents(expose)))
    shut = next((part for part in parts if part.status != c.TRUE), None)
    if shut is not None:
        return shut
    return c.yes("RouteAccepted", "; ".join(part.message for part in parts)) if parts else c.yes("NotExposed")


def cluster_address(name: str, namespace: str) -> dict[str, str]:
    """The row of `status.addresses` that leads to the Service."""
    return {"name": "cluster", "url": f"http://{name}.{namespace}.svc:{PORT}/v1"}


def addresses(
    name: str, namespace: str, expose: Expose, ingress: Ingress | None, route: HTTPRoute | None
) -> list[dict[str, str]]:
    """`status.addresses`: inside the cluster always, outside as soon as somebody answers there."""
    rows = [cluster_address(name, namespace)]
    below = f"{expose.path}/v1"
    if expose.ingress and _balancers(ingress):
        scheme = "https" if expose.ingress.tls_secret or expose.ingress.tls_secret_ref else "http"
        rows.append({"name": "ingress", "url": f"{scheme}://{expose.ingress.host}{below}"})
    hosts = route.spec.hostnames if route else ()
    if expose.gateway and hosts and _gateway(_parents(expose), route).status == c.TRUE:
        rows.append({"name": "gateway", "url": f"http://{hosts[0]}{below}"})
    return rows


def _ingress(host: str, ingress: Ingress | None) -> Verdict:
    places = _balancers(ingress)
    if places:
        return c.yes("RouteAccepted", f"{host} leads to {', '.join(places)}")
    wanted = ingress.spec.ingress_class_name if ingress else ""
    whose = f'of class "{wanted}"' if wanted else "of the default class"
    return c.no("RoutePending", f"no ingress controller {whose} has taken host {host} yet")


def _balancers(ingress: Ingress | None) -> list[str]:
    rows = ingress.status.load_balancer.ingress if ingress else ()
    return [row.ip or row.hostname for row in rows if row.ip or row.hostname]


def _parents(expose: Expose) -> str:
    rows = expose.gateway.parent_refs if expose.gateway else ()
    return ", ".join("/".join(filter(None, (row.namespace, row.name))) for row in rows)


def _gateway(parents: str, route: HTTPRoute | None) -> Verdict:
    """Every parent must have taken the route; the controller's own words say why one has not."""
    rows = route.status.parents if route else ()
    if not rows:
        return c.no("RouteNotAccepted", f"no controller of Gateway {parents} has looked at the route yet")
    for row in rows:
        for type_ in PARENT_TYPES:
            said = condition(row.conditions, type_)
            if said is not None and not said.holds:
                words = f"Gateway {row.parent_ref.name} says {type_}={said.status}: {said.message or said.reason}"
                return c.no("RouteNotAccepted", words)
    return c.yes("RouteAccepted", f"Gateway {parents} has taken the route")


def _no_gateway(parents: str) -> Verdict:
    return c.no("GatewayApiMissing", f"the cluster has no HTTPRoute kind, so no route to Gateway {parents} can be made")
