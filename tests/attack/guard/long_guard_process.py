"""What of the attacks against a guarded server process the gate has no time for; `make attack-guard` runs it."""

import json
from dataclasses import replace

import pytest

from . import attacks
from .attacks import CHAT, Target
from .test_guard_process import KEYS, PLACES, start

HEALTH_S = 3.0


@pytest.fixture
def server():
    with start() as target:
        yield target


@pytest.fixture
def other(server: Target) -> Target:
    return replace(server, key=KEYS[1])


def test_every_body_that_costs_a_parser_most(server: Target) -> None:
    """Each of 31 MiB, four of it at once."""
    figures = attacks.body_bombs(server, at_once=4)
    assert {status for one in figures.values() for status in one["statuses"]} == {400, 413}
    assert max(one["health_longest_s"] for one in figures.values()) < HEALTH_S
    assert max(one["memory_mib"] for one in figures.values()) < 900


def test_half_heads_end(server: Target) -> None:
    """200 connections that never say what they want are gone after 15 s."""
    assert attacks.half_heads(server) == {"opened": 200, "still_open": 0}


def test_two_thousand_half_heads_leave_room(server: Target, other: Target) -> None:
    """The oldest end before the newest wait."""
    with attacks._many(server, 2_000, b"GET / HTTP/1.1\r\nx: "):
        assert other.ask("GET", "/v1/models").status == 200


def test_readers_that_take_nothing_are_ended(server: Target) -> None:
    """After 30 s, and their places are free again."""
    body = json.dumps({"messages": [], "pieces": 4000}).encode()
    with attacks._many(server, PLACES - 1, server.head("POST", CHAT, len(body)) + body, receive_buffer=4096):
        attacks.time.sleep(45)
        assert "windlass_api_requests_running 0\n" in server.ask("GET", "/windlass/metrics").text
        assert "windlass_api_unread_bytes 0\n" in server.ask("GET", "/windlass/metrics").text


def test_many_bodies_at_once_stay_within_the_budget(server: Target, other: Target) -> None:
    """64 images of 24 MiB at once by one key: memory is bounded, another key is served meanwhile."""
    image = b'{"messages": [{"role": "user", "content": "data:image/png;base64,' + b"A" * 24 * attacks.MIB + b'"}]}'
    with attacks.watching(server) as watch, attacks.ThreadPoolExecutor(64) as pool:
        asked = [pool.submit(server.ask, "POST", CHAT, image, timeout_s=240) for _ in range(64)]
        assert other.ask("POST", CHAT, b'{"messages": []}', timeout_s=60).status == 200
        statuses = {one.result().status for one in asked}
    assert statuses <= {200, 429}
    assert watch.figures["memory_mib"] < 2_500
    assert watch.failed == 0
