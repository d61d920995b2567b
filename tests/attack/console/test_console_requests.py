"""Requests that the console's own pages would not send: forged, oversized, slow, too many, or with a path that tricks.

Each is sent to a console in a process of its own before a real API server. The long versions are in
`long_console.py`; `make attack-console` runs them.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from windlass_testbed.waiting import HANG_S, wait_until

from ..guard import attacks
from ..guard.attacks import Answer, Target
from . import floods
from .conftest import Attacked
from .routes import UNSAFE, Route, every

pytestmark = pytest.mark.apiserver
EXAMPLES = int(os.environ.get("WINDLASS_FUZZ_PATHS", "300"))
"""How long a busy machine may keep another user waiting."""
KIB, MIB = 1 << 10, 1 << 20
PREFIX = "/team/console"
FORGED = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"x_windlass_console": ""},
    {"x_windlass_console": "1, 1"},
)


@pytest.fixture(scope="module")
def user(console: Attacked) -> Iterator[tuple[str, httpx2.Client]]:
    """A namespace with a service, and its editor."""
    namespace = console.namespace()
    console.service(namespace)
    with console.shared.signed_in(console.url, console.token(namespace)) as http:
        yield namespace, http


@pytest.fixture(scope="module")
def prefixed(start: Callable[..., Attacked]) -> Attacked:
    """A console behind a path."""
    return start("--prefix", PREFIX)


def cookie_of(http: httpx2.Client) -> str:
    return "; ".join(f"{one.name}={one.value}" for one in http.cookies.jar)


def send(target: Target, route: Route, **headers: str) -> Answer:
    """One request, byte for byte as it is meant."""
    query = "&".join(f"{key}={value}" for key, value in route.query.items())
    path = f"{route.path}?{query}" if query else route.path
    return target.ask(route.method, path, route.content, timeout_s=HANG_S, **headers)


@pytest.mark.parametrize("forged", FORGED, ids=str)
def test_no_forged_request_changes_anything(console: Attacked, user: Any, forged: dict[str, str]) -> None:
    """Every unsafe route, with the user's cookie: the neighbour of the same domain is another site as well."""
    namespace, http = user
    before = http.get(f"/api/services/{namespace}/qwen").json()["service"]
    host = console.url.removeprefix("http://")
    right = {"cookie": cookie_of(http), "x_windlass_console": "1", "origin": console.url, "host": host}
    routes = [one for one in every(namespace, "qwen") if one.method in UNSAFE]
    assert len(routes) >= 14
    for route in routes:
        answer = send(console.target, route, **right | forged)
        assert (answer.status, '"reason": "Origin"' in answer.text) == (403, True), (route, answer.raw)
        assert b"access-control-allow" not in answer.raw.lower()
    assert http.get(f"/api/services/{namespace}/qwen").json()["service"] == before
    assert http.get("/api/session").status_code == 200


def test_a_page_of_another_origin_gets_no_permission_to_ask(console: Attacked, user: Any) -> None:
    """A browser asks by OPTIONS first: the answer has no word of CORS."""
    for route in every(user[0], "qwen"):
        asked = {"origin": "https://evil.example", "access_control_request_method": route.method,
                 "access_control_request_headers": "x-windlass-console"}  # fmt: skip
        answer = send(console.target, replace(route, method="OPTIONS", body=None), **asked)
        assert answer.status in (403, 405), (route, answer.raw)
        assert b"access-control" not in answer.raw.lower()


def test_what_is_too_long_is_refused_and_costs_nothing(console: Attacked, user: Any) -> None:
    """Forms, heads, cookies and addresses: each is refused by a sentence, and the console stays small and awake."""
    namespace, http = user
    good = {"x_windlass_console": "1", "cookie": cookie_of(http)}
    routes = [one for one in every(namespace, "qwen") if one.method in UNSAFE and one.path != "/api/session"]
    with floods.watching(console.target) as watch:
        for route in routes:
            length = 17 * MIB if "licenses" in route.path else 3 * MIB if route.path.endswith("chat") else 300 * KIB
            answer = send(console.target, replace(route, body=b"[" + b" " * length), **good)
            assert answer.status == 413, (route, answer.raw[:300])
        for name, headers in floods.long_heads(cookie_of(http)).items():
            answer = console.target.ask("GET", "/api/session", timeout_s=HANG_S, **headers)
            assert answer.status in (400, 401, 422, 431), (name, answer.raw[:300])
        for path in ("/" + "a" * 60_000, "/api/services?namespace=" + "a" * 60_000, "/api/services?" + "a=1&" * 15_000):
            assert console.target.ask("GET", path, timeout_s=HANG_S).status == 431
    print(f"\na probe waited {watch.longest_s:.2f} s at most")
    assert watch.failed == 0
    assert watch.most_mib < 400


@pytest.mark.parametrize("bomb", ["empty objects", "distinct keys", "nested", "quotes", "escapes", "digits"])
def test_a_form_that_costs_a_parser_most_is_refused(console: Attacked, user: Any, bomb: str) -> None:
    """Just below the bound in bytes."""
    namespace, http = user
    body = attacks.bombs(250 * KIB)[bomb]
    for path in ("/api/plan", f"/api/services/{namespace}", "/api/session"):
        answer = console.target.ask(
            "POST", path, body, timeout_s=HANG_S, x_windlass_console="1", cookie=cookie_of(http), authorization=""
        )
        assert answer.status in (400, 422), answer.raw[:300]


@pytest.mark.parametrize(
    "headers",
    [
        {"content_length": "9" * 30},
        {"content_length": "-1"},
        {"content_length": "1, 2"},
        {"transfer_encoding": "chunked", "content_length": "5"},
        {"transfer_encoding": "gzip, chunked"},
    ],
    ids=str,
)
def test_lengths_that_lie_are_refused(console: Attacked, headers: dict[str, str]) -> None:
    """The answer is one of the client's errors, or the connection ends."""
    answer = console.target.ask(  # clock: no answer is as good as a refusal
        "POST", "/api/session", None, timeout_s=1, x_windlass_console="1", **headers
    )
    assert answer.status in (0, 400, 413)


def test_streams_and_requests_of_one_user_are_bounded(console: Attacked, user: Any) -> None:
    """The others are refused by a sentence; another user is served meanwhile; what ends gives its place back."""
    namespace, http = user
    cookie, other = cookie_of(http), console.token(namespace)
    path = f"/api/services/watch?namespace={namespace}"
    head = console.target.head("GET", path, cookie=cookie)
    with attacks._many(console.target, 40, head) as many:
        statuses = sorted(floods.status_now(one) for one in many)
        assert statuses == [200] * 16 + [429] * 24
        assert http.get("/api/session").status_code == 200
        with console.shared.signed_in(console.url, other) as ben, ben.stream("GET", path) as stream:
            assert stream.status_code == 200
    # A stream has no end, so each try reads for a second.
    again = partial(console.target.ask, "GET", path, timeout_s=1, cookie=cookie)  # clock: tried until it is served
    wait_until(lambda: again().status == 200, "a place for another stream")


def test_a_flood_of_sign_ins_keeps_nobody_out(console: Attacked, user: Any) -> None:
    """Invented tokens, by cookieless clients: a user who is there is served, and a new one signs in."""
    namespace, http = user
    fresh = console.token(namespace)
    with floods.sign_ins(console.target, clients=16) as flood:
        wait_until(lambda: flood.sent > 50, "the flood")
        began = time.monotonic()
        assert http.get(f"/api/services/{namespace}/qwen").status_code == 200
        known_s = time.monotonic() - began
        with console.shared.signed_in(console.url, fresh) as ben:
            assert ben.get("/api/session").status_code == 200
        new_s = time.monotonic() - began - known_s
    print(f"\na user waited {known_s:.2f} s, a new one {new_s:.2f} s; `make attack-console` bounds both")
    assert flood.statuses <= {401, 503}, flood.statuses


def test_half_requests_keep_nobody_waiting(console: Attacked, user: Any) -> None:
    """Heads and bodies that never end, and readers that take nothing."""
    namespace, http = user
    cookie = cookie_of(http)
    reader = console.target.head("GET", f"/api/services/watch?namespace={namespace}", cookie=cookie)
    body = console.target.head("POST", "/api/plan", 200 * KIB, cookie=cookie, x_windlass_console="1") + b"{"
    with (
        attacks._many(console.target, 200, b"GET /api/session HTTP/1.1\r\nhost: x\r\nx-slow: "),
        attacks._many(console.target, 50, body),
        attacks._many(console.target, 8, reader, receive_buffer=4096),
        floods.watching(console.target) as watch,
    ):
        assert http.get(f"/api/services/{namespace}/qwen").status_code == 200
        assert http.put(f"/api/services/{namespace}/qwen/scale", json={"replicas": 1}).status_code == 204
    print(f"\na probe waited {watch.longest_s:.2f} s at most")
    assert watch.failed == 0


HOSTS = ("evil.example", "evil.example:80@127.0.0.1", "127.0.0.1/../x", "[::1]", "a" * 300, "")


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_of_the_requests_own_is_never_repeated(console: Attacked, prefixed: Attacked, host: str) -> None:
    """Neither in a redirect nor in a page or an error."""
    for target, paths in (
        (console.target, ("/", "/api/session", "/api/session/", "/nowhere", "//evil.example/..")),
        (prefixed.target, (PREFIX, f"{PREFIX}/", f"{PREFIX}//evil.example", f"{PREFIX}/api/services/")),
    ):
        for path in paths:
            answer = target.ask("GET", path, timeout_s=HANG_S, host=host)
            head = answer.raw.partition(b"\r\n\r\n")[0].lower()
            assert answer.status in (200, 307, 400, 401, 404), answer.raw[:300]
            assert re.search(rb"\nlocation: (?!/team/console/\r)", head + b"\r\n") is None, head
            if host and "evil.example" not in path:
                assert host.encode() not in answer.raw


def test_a_whole_address_as_the_target_is_a_path(console: Attacked) -> None:
    """What a client sends to a proxy opens nothing else."""
    for target in ("http://evil.example/api/session", "https://kubernetes.default.svc/api/v1/secrets", "*"):
        answer = console.target.ask("GET", target, timeout_s=HANG_S)
        assert answer.status in (200, 400, 401, 403, 404), answer.raw[:300]
        assert "secret" not in answer.text.lower().replace("/api/v1/secrets", "")


PIECES = st.sampled_from(
    "/ // . .. %2e %2e%2e %2f %5c \\ ; ? # %00 %0a %0d%0aX-Evil:1 %c0%ae %u002e team console api session services "
    "index.html vendor preact.js etc passwd __init__.py errors.py openapi.json healthz * ~ ..;/ a %252e%252e é".split()
)
DRAWN = st.lists(PIECES, min_size=1, max_size=9).map("".join)
QUIET = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(drawn=DRAWN, below=st.sampled_from(("", PREFIX, f"{PREFIX}/", "/team", "/team/console/..")))
@example(drawn="%0a/", below="")
def test_no_path_leads_anywhere_else(prefixed: Attacked, drawn: str, below: str) -> None:
    """Without a session: pages, probes, the API's description, and refusals; always with our headers."""
    path = f"{below}/{drawn}".replace(" ", "")
    answer = prefixed.target.ask("GET", path, timeout_s=HANG_S)
    head, _, body = answer.raw.partition(b"\r\n\r\n")
    assert answer.status in (200, 307, 400, 401, 404), (path, answer.raw[:300])
    assert b"\nx-evil" not in head.lower(), path
    if b"content-security-policy" not in head.lower():  # refused as no HTTP, before any application
        refusal = {"error": "Invalid HTTP request received.", "reason": "BadRequest", "fields": []}
        assert (answer.status, json.loads(body)) == (400, refusal), path
    if answer.status == 307:
        assert f"\r\nlocation: {PREFIX}/\r\n" in (head + b"\r\n").decode().lower(), path
    assert b"def " not in body, path
    assert b"root:" not in body, path
