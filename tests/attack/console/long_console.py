"""What of the attacks on the console the gate has no time for; `make attack-console` runs it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from windlass_testbed.waiting import wait_until

from ..guard import attacks
from . import floods
from .conftest import Attacked
from .test_console_requests import KIB, MIB, cookie_of, user

pytestmark = pytest.mark.apiserver
__all__ = ["user"]
SERVICES = 300
SECONDS = 3.0
MEMORY_MIB = 512
"""The chart's limit of the container."""


def test_half_heads_and_half_bodies_end(console: Attacked, user: Any) -> None:
    """Within their time: 10 s for a head, 20 s for a body."""
    cookie = cookie_of(user[1])
    body = console.target.head("POST", "/api/plan", 200 * KIB, cookie=cookie, x_windlass_console="1") + b"{"
    head = b"GET /api/session HTTP/1.1\r\nhost: x\r\nx-slow: "
    with attacks._many(console.target, 200, head) as heads, attacks._many(console.target, 100, body) as bodies:
        time.sleep(25)
        assert sum(attacks._is_open(one) for one in [*heads, *bodies]) == 0


def test_two_thousand_half_heads_leave_room(console: Attacked, user: Any) -> None:
    """From one address a thousand connections at most; another address gets its own."""
    namespace, http = user
    with attacks._many(console.target, 900, b"GET / HTTP/1.1\r\nx: "):
        assert http.get(f"/api/services/{namespace}/qwen").status_code == 200


def test_long_sign_in_flood(console: Attacked, user: Any) -> None:
    """Half a minute of it by 64 clients: each second a user reads, and each third one a new one signs in."""
    namespace, http = user
    fresh = [console.token(namespace) for _ in range(8)]
    waits, news = [], []
    with floods.watching(console.target) as watch, floods.sign_ins(console.target, clients=64) as flood:
        for number in range(24):
            began = time.monotonic()
            assert http.get(f"/api/services/{namespace}/qwen").status_code == 200
            waits.append(time.monotonic() - began)
            if number % 3 == 0:
                began = time.monotonic()
                with console.shared.signed_in(console.url, fresh[number // 3]):
                    news.append(time.monotonic() - began)
            time.sleep(max(0.0, 1 - (time.monotonic() - began)))
    print(f"\n{flood.sent} sign-ins refused: a user waits {max(waits):.2f} s at most, a new one {max(news):.2f} s")
    print(f"memory {watch.most_mib:.0f} MiB, probe {watch.longest_s:.2f} s")
    assert flood.statuses <= {401, 503}
    assert max(waits) < SECONDS
    assert max(news) < 4 * SECONDS
    assert watch.most_mib < MEMORY_MIB


def test_requests_of_one_user_fill_no_memory(console: Attacked, user: Any) -> None:
    """A hundred lists of 300 services at once: some are refused, others wait for nothing, memory stays."""
    namespace, http = user
    for number in range(SERVICES):
        body = console.shared.a_service(f"s{number}")
        assert http.post(f"/api/services/{namespace}", json=body).status_code == 201
    other = console.token(namespace)
    path, cookie = f"/api/services?namespace={namespace}", cookie_of(http)
    with floods.watching(console.target) as watch, ThreadPoolExecutor(100) as pool:
        asked = [pool.submit(console.target.ask, "GET", path, cookie=cookie, timeout_s=120) for _ in range(300)]
        with console.shared.signed_in(console.url, other) as ben:
            began = time.monotonic()
            assert ben.get(f"/api/services/{namespace}/qwen").status_code == 200
            waited = time.monotonic() - began
        statuses = [one.result().status for one in asked]
    print(
        f"\n{statuses.count(200)} lists, {statuses.count(429)} refused; "
        f"{watch.most_mib:.0f} MiB; another user {waited:.2f} s"
    )
    assert set(statuses) <= {200, 429}
    assert watch.failed == 0
    assert watch.most_mib < MEMORY_MIB


def test_streams_come_and_go(console: Attacked, user: Any) -> None:
    """Five hundred that are opened and broken off: no place and no memory stays behind."""
    namespace, http = user
    head = console.target.head("GET", f"/api/services/watch?namespace={namespace}", cookie=cookie_of(http))
    before = console.target.memory_mib()
    for _ in range(50):
        with attacks._many(console.target, 10, head):
            time.sleep(0.1)
    path = f"/api/services/watch?namespace={namespace}"
    wait_until(lambda: console.target.ask("GET", path, timeout_s=1, cookie=cookie_of(http)).status == 200)
    assert console.target.memory_mib() - before < 100


def test_long_files_without_a_session_are_not_read(console: Attacked) -> None:
    """Chats and licenses of megabytes by nobody: refused before their body."""
    with floods.watching(console.target) as watch, ThreadPoolExecutor(32) as pool:
        paths = ["/api/licenses/a/b", "/api/services/a/b/chat"] * 32
        body = b"x" * (2 * MIB - KIB)
        asked = [pool.submit(console.target.ask, "POST", path, body, x_windlass_console="1") for path in paths]
        assert {one.result().status for one in asked} == {401}
    assert watch.most_mib < MEMORY_MIB
