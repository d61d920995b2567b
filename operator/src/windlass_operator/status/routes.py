"""Whether the ways in from outside are open, and where they lead. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass_api.objects.reading import Object, dig

from windlass_operator.status import conditions as c
from windlass_operator.status.conditions import Verdict

PORT = 8501
PARENT_TYPES = ("Accepted", "ResolvedRefs")


def route_ready(expose: Mapping[str, Any], ingress: Object | None, route: Object | None, known: bool) -> Verdict:
    """`expose` is spec.expose as written; `known` says whether the cluster serves HTTPRoutes at all."""
    parts = []
    if expose.get("ingress"):
        parts.append(_ingress(str(dig(expose, "ingress", "host") or ""), ingress))
    if expose.get("gateway"):
        parts.append(_gateway(_parents(expose), route) if known else _no_gateway(_parents(expose)))
    shut = next((part for part in parts if part.status != c.TRUE), None)
    if shut is not None:
        return shut
    return c.yes("RouteAccepted", "; ".join(part.message for part in parts)) if parts else c.yes("NotExposed")


def addresses(
    name: str, namespace: str, expose: Mapping[str, Any], ingress: Object | None, route: Object | None
) -> list[dict[str, str]]:
    """`status.addresses`: inside the cluster always, outside as soon as somebody answers there."""
    rows = [{"name": "cluster", "url": f"http://{name}.{namespace}.svc:{PORT}/v1"}]
    below = f"{expose.get('path') or ''}/v1"
    if expose.get("ingress") and _balancers(ingress):
        way = expose["ingress"]
        scheme = "https" if way.get("tlsSecret") or way.get("tlsSecretRef") else "http"
        rows.append({"name": "ingress", "url": f"{scheme}://{dig(expose, 'ingress', 'host')}{below}"})
    hosts = dig(route, "spec", "hostnames") or ()
    if expose.get("gateway") and hosts and _gateway(_parents(expose), route).status == c.TRUE:
        rows.append({"name": "gateway", "url": f"http://{hosts[0]}{below}"})
    return rows


def _ingress(host: str, ingress: Object | None) -> Verdict:
    places = _balancers(ingress)
    if places:
        return c.yes("RouteAccepted", f"{host} leads to {', '.join(places)}")
    wanted = dig(ingress, "spec", "ingressClassName")
    whose = f'of class "{wanted}"' if wanted else "of the default class"
    return c.no("RoutePending", f"no ingress controller {whose} has taken host {host} yet")


def _balancers(ingress: Object | None) -> list[str]:
    rows = dig(ingress, "status", "loadBalancer", "ingress") or ()
    return [str(row.get("ip") or row.get("hostname")) for row in rows if row.get("ip") or row.get("hostname")]


def _parents(expose: Mapping[str, Any]) -> str:
    rows = dig(expose, "gateway", "parentRefs") or ()
    return ", ".join("/".join(str(row[key]) for key in ("namespace", "name") if row.get(key)) for row in rows)


def _gateway(parents: str, route: Object | None) -> Verdict:
    """Every parent must have taken the route; the controller's own words say why one has not."""
    rows = dig(route, "status", "parents") or ()
    if not rows:
        return c.no("RouteNotAccepted", f"no controller of Gateway {parents} has looked at the route yet")
    for row in rows:
        for type_ in PARENT_TYPES:
            said = _condition(row.get("conditions") or (), type_)
            if said is not None and said.get("status") != "True":
                who = dig(row, "parentRef", "name")
                words = f"Gateway {who} says {type_}={said.get('status')}: {said.get('message') or said.get('reason')}"
                return c.no("RouteNotAccepted", words)
    return c.yes("RouteAccepted", f"Gateway {parents} has taken the route")


def _condition(rows: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row.get("type") == type_), None)


def _no_gateway(parents: str) -> Verdict:
    return c.no("GatewayApiMissing", f"the cluster has no HTTPRoute kind, so no route to Gateway {parents} can be made")
