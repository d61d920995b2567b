"""A stolen view of another namespace: a user asks every route of the API for a namespace that is another team's.

The API server is real, and so are the other team's service, pod and refusals.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import pytest
from windlass_testbed.waiting import wait_until

from .conftest import Attacked
from .routes import Route, every

pytestmark = pytest.mark.apiserver
SECRET = "Their-Secret-Model"
# Of these the answer is about the cluster or the user, or is the same for all.
OPEN = {"/api/session", "/api/schema", "/healthz", "/readyz"}


@dataclass(frozen=True)
class Teams:
    """The own namespace and the other one, with a service of the same name in both."""

    own: str
    other: str
    http: httpx2.Client
    admin: httpx2.Client


@pytest.fixture
def teams(console: Attacked, signed_in: Any) -> Teams:
    own, other = console.namespace(), console.namespace()
    model = {"id": SECRET, "source": {"pvc": {"claimName": "their-claim", "path": SECRET}}}
    console.service(other, model=model)
    console.service(own)
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "server"}
    container = {"name": "server", "image": SECRET.lower()}
    meta = {"name": "qwen-0", "namespace": other, "labels": labels}
    console.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})
    return Teams(own, other, signed_in(console.token(own)), signed_in(console.apiserver.token))


def answer_of(http: httpx2.Client, route: Route) -> tuple[int, str]:
    """Status and text; of a stream what comes until its end or its first event with data."""
    headers = {"Content-Type": "application/json"}
    given = {"params": route.query, "content": route.content, "headers": headers}
    with http.stream(route.method, route.path, **given) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, answer.read().decode()
        lines = []
        for line in answer.iter_lines():
            lines.append(line)
            if line.startswith("data: "):
                break
        return answer.status_code, "\n".join(lines)


def state(teams: Teams) -> Any:
    """The other team's service as it is stored."""
    return teams.admin.get(f"/api/services/{teams.other}/qwen").json()["service"]


def test_every_route_refuses_the_other_teams_namespace(teams: Teams) -> None:
    """By the API server's own 403; nothing of the other team is in an answer, and nothing of theirs changes."""
    before, leaks, statuses = state(teams), [], {}
    for route in every(teams.other, "qwen"):
        if route.path in OPEN:
            continue
        status, text = answer_of(teams.http, route)
        statuses[f"{route.method} {route.path.replace(teams.other, 'OTHER')}"] = status
        if SECRET in text or SECRET.lower() in text:
            leaks.append((route, text))
        if "OTHER" in route.path.replace(teams.other, "OTHER"):
            refused = status == 403 or (status == 200 and '"reason":"Forbidden"' in text)
            assert refused, (route, status, text)
    assert leaks == []
    assert state(teams) == before
    assert statuses["GET /api/capacity"] == statuses["GET /api/licenses"] == 403
    assert sum(status == 403 for status in statuses.values()) >= 20


def test_what_the_form_asks_for_shows_nothing_of_them(teams: Teams) -> None:
    """Neither by the likeness of their service, nor by the namespace of the document, nor in what is offered."""
    document = {"metadata": {"name": "mine"}, "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}}}
    like = {"namespace": teams.other, "name": "qwen"}
    for body in (
        {"namespace": teams.own, "service": document, "like": like},
        {"namespace": teams.other, "service": document},
        {"namespace": teams.own, "service": {**document, "metadata": {"name": "mine", "namespace": teams.other}}},
    ):
        answer = teams.http.post("/api/plan", json=body)
        assert SECRET not in answer.text
        if answer.is_success:
            planned = answer.json()
            assert planned["preview"] is None
            assert "forbidden" in planned["refused"] + planned["noPlan"] or planned["noFacts"], planned
    offered = teams.http.get("/api/choices", params={"namespace": teams.other}).json()
    assert set(offered.values()) == {None}
    can = teams.http.get("/api/permissions", params={"namespace": teams.other}).json()["can"]
    assert not any(can.values()), can


def test_all_namespaces_are_the_own_ones_alone(teams: Teams) -> None:
    """The list of everything is refused; the stream has what the user may list; models are those of the user."""
    every_list = teams.http.get("/api/services", params={"namespace": "*"})
    assert every_list.status_code == 403
    status, text = answer_of(teams.http, Route("GET", "/api/services/watch", {"namespace": "*"}))
    rows = json.loads(text.rpartition("data: ")[2])["upserted"]
    assert (status, {row["namespace"] for row in rows}) == (200, {teams.own})
    assert SECRET not in teams.http.get("/api/models", params={"namespace": "*"}).text


def test_an_administrators_open_list_shows_nothing_to_others(teams: Teams) -> None:
    """Streams of one user share a watch; another user at the same console gets none of it."""
    with teams.admin.stream("GET", "/api/services/watch", params={"namespace": teams.other}) as theirs:
        assert SECRET in next(line for line in theirs.iter_lines() if line.startswith("data: "))
        _, text = answer_of(teams.http, Route("GET", "/api/services/watch", {"namespace": teams.other}))
    assert ('"reason":"Forbidden"' in text, SECRET in text) == (True, False)


PATHS = (
    "/api/services/{own}/..%2F..%2F{other}%2Fllmservices%2Fqwen",
    "/api/services/{own}%2F..%2F{other}/qwen",
    "/api/services/{own}/qwen/..%2f..%2f..%2f{other}/qwen",
    "/api/services/{own}/qwen/logs?pod=../../{other}/pods/qwen-0",
    "/api/services/{own}/qwen/logs?pod=qwen-0&namespace={other}",
    "/api/services/{own}/../{other}/qwen",
    "/api/services/{own}/./../{other}/qwen",
    "/api/services/{own}/qwen?namespace={other}",
    "/api/services?namespace={own}&namespace={other}",
    "/api/services?namespace={own}%2F..%2F{other}",
    "/api/services?namespace={own}%00{other}",
    "/api/services?namespace={own},{other}",
    "/api/benchmarks/{own}/..%2F..%2F{other}%2Fjobs%2Fx",
    "/api/licenses/{own}/..%2F..%2F{other}",
    "/api/permissions?namespace=..%2F{other}",
)


@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_leads_to_the_other_namespace(teams: Teams, console: Attacked, path: str) -> None:
    """Sent byte for byte, with the user's cookie: no client tidies the path before."""
    cookie = "; ".join(f"{one.name}={one.value}" for one in teams.http.cookies.jar)
    where = path.format(own=teams.own, other=teams.other)
    # A stream has no end, so each try reads for three seconds.
    ask = partial(console.target.ask, "GET", where, timeout_s=3, cookie=cookie)  # clock: asked until there is an answer
    answer = wait_until(lambda: (one := ask()).status and one, "an answer")
    assert SECRET.lower() not in answer.text.lower()
    assert answer.status in (200, 400, 403, 404, 405), answer.text
    if answer.status == 200:
        assert teams.other not in answer.text
