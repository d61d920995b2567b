"""The ways in: what is asked, what the controllers say, where the service answers."""

from __future__ import annotations

import pytest
from windlass_operator.records.base import parse
from windlass_operator.records.routes import Expose, HTTPRoute, Ingress
from windlass_operator.status import routes

INGRESS = {"ingress": {"host": "llm.example.com", "tlsSecret": "tls"}}
GATEWAY = {"gateway": {"parentRefs": [{"name": "front", "namespace": "infra"}]}}


def route_ready(expose, ingress, route, known):
    return routes.route_ready(parse(Expose, expose), ingress, route, known)


def addresses(name, namespace, expose, ingress, route):
    return routes.addresses(name, namespace, parse(Expose, expose), ingress, route)


def an_ingress(*places):
    status = {"loadBalancer": {"ingress": [{"ip": place} for place in places]}}
    return parse(Ingress, {"spec": {}, "status": status})


def a_route(**states):
    rows = [{"type": type_, "status": status, "message": f"words of {type_}"} for type_, status in states.items()]
    status = {"parents": [{"parentRef": {"name": "front"}, "conditions": rows}]}
    return parse(HTTPRoute, {"spec": {"hostnames": ["g.example.com"]}, "status": status})


CASES = {
    "nothing asked": ({}, None, None, True, ("True", "NotExposed"), "Service"),
    "ingress pending": (INGRESS, an_ingress(), None, True, ("False", "RoutePending"), "llm.example.com"),
    "ingress there": (INGRESS, an_ingress("10.0.0.1"), None, True, ("True", "RouteAccepted"), "leads to 10.0.0.1"),
    "nobody looked": (GATEWAY, None, HTTPRoute(), True, ("False", "RouteNotAccepted"), "infra/front"),
    "taken": (GATEWAY, None, a_route(Accepted="True", ResolvedRefs="True"), True, ("True", "RouteAccepted"), "front"),
    "refused": (GATEWAY, None, a_route(Accepted="False"), True, ("False", "RouteNotAccepted"), "words of Accepted"),
    "no kind": (GATEWAY, None, None, False, ("False", "GatewayApiMissing"), "infra/front"),
    "one of two": ({**INGRESS, **GATEWAY}, an_ingress("10.0.0.1"), None, True, ("False", "RouteNotAccepted"), "front"),
}


@pytest.mark.parametrize(("expose", "ingress", "route", "known", "word", "words"), CASES.values(), ids=CASES)
def test_a_way_in_has_one_word(expose, ingress, route, known, word, words):
    verdict = route_ready(expose, ingress, route, known)
    assert ((verdict.status, verdict.reason), words in verdict.message) == (word, True)


def test_an_address_is_shown_once_somebody_answers_there():
    inside = {"name": "cluster", "url": "http://qwen.a.svc:8501/v1"}
    assert addresses("qwen", "a", {**INGRESS, **GATEWAY}, an_ingress(), a_route(Accepted="False")) == [inside]
    taken = a_route(Accepted="True", ResolvedRefs="True")
    assert addresses("qwen", "a", {**INGRESS, **GATEWAY}, an_ingress("10.0.0.1"), taken) == [
        inside,
        {"name": "ingress", "url": "https://llm.example.com/v1"},
        {"name": "gateway", "url": "http://g.example.com/v1"},
    ]


@pytest.mark.parametrize(
    ("tls", "scheme"), [({}, "http"), ({"tlsSecret": ""}, "http"), ({"tlsSecretRef": {"name": "tls"}}, "https")]
)
def test_a_certificate_in_either_form_makes_the_address_https(tls, scheme):
    way = {"ingress": {"host": "llm.example.com", **tls}}
    assert addresses("qwen", "a", way, an_ingress("10.0.0.1"), None)[1]["url"] == f"{scheme}://llm.example.com/v1"


def test_an_address_outside_has_the_prefix_and_the_one_inside_has_none():
    """The server answers at both."""
    taken = a_route(Accepted="True", ResolvedRefs="True")
    rows = addresses("qwen", "a", {**INGRESS, **GATEWAY, "path": "/qwen"}, an_ingress("10.0.0.1"), taken)
    assert [row["url"] for row in rows] == [
        "http://qwen.a.svc:8501/v1",
        "https://llm.example.com/qwen/v1",
        "http://g.example.com/qwen/v1",
    ]
