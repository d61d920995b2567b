"""The attacks against a guarded server process: what each may cost, and that it costs nobody else anything.

The server is `engine_like.py`: the real guard, uvicorn and Starlette's router with the engine's routes, nothing behind.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_testbed.waiting import HANG_S

from . import attacks
from .attacks import CHAT, Target

ENGINE_LIKE = Path(__file__).with_name("engine_like.py")
KEYS = ("key-of-alice", "key-of-bob")
PLACES = 4
HEALTH_S = 60.0  # ends a hang; `make attack-guard` has a limit of its own
"""Seconds without /health that a busy machine may explain; dde1513 took 25 and more for the same."""


def start(**settings: object):
    api = json.dumps({"served_names": ["demo"], "concurrency": PLACES, "queue": 64} | settings)
    return attacks.served(ENGINE_LIKE, WINDLASS_API=api, WINDLASS_API_KEYS=",".join(KEYS), KEY=KEYS[0])


@pytest.fixture(scope="module")
def server():
    with start() as target:
        yield target


@pytest.fixture
def other(server: Target) -> Target:
    return replace(server, key=KEYS[1])


def test_a_newline_behind_a_path_reaches_nothing(server: Target) -> None:
    """Neither a closed route nor one whose fields are checked (finding 7)."""
    figures = attacks.newline_paths(server)
    assert figures["scale_elastic_ep%0a"] == 400
    assert "control character" in figures["chat%0a with temperature 3"]


def test_control_routes_are_closed_to_keys(server: Target) -> None:
    """Though the engine has them."""
    assert set(attacks.control_routes(server).values()) == {403}
    assert server.ask("GET", "/v1/models").status == 200


def test_numbers_without_a_float_are_refused(server: Target) -> None:
    """In every field with a range, with 400."""
    assert list(attacks.hostile_numbers(server).values()) == [[400]] * 4


def test_bodies_that_cost_a_parser_most_cost_nobody_else(server: Target) -> None:
    """Each of 31 MiB: refused, /health stays, memory stays (finding 9). The others are in long_guard_process.py."""
    figures = attacks.body_bombs(server, names=("empty objects", "distinct keys"))
    assert {status for one in figures.values() for status in one["statuses"]} == {413}
    assert max(one["health_longest_s"] for one in figures.values()) < HEALTH_S
    assert sum(one["health_failed"] for one in figures.values()) == 0
    assert max(one["memory_mib"] for one in figures.values()) < 600


def test_slow_readers_keep_no_other_key_waiting(server: Target, other: Target) -> None:
    """More of them than places, each with an answer of 37 MiB that nobody reads (finding 8)."""
    figures = attacks.slow_readers(server, other, 2 * PLACES, patience_s=HANG_S)
    assert figures["other_status"] == 200
    assert figures["other_s"] < HEALTH_S


def test_bodies_that_never_end_keep_no_other_key_waiting(server: Target, other: Target) -> None:
    """More of them than places; they hold no memory but their sockets'."""
    head = server.head("POST", CHAT, 31 * attacks.MIB) + b'{"messages": ['
    with attacks._many(server, 50, head):
        assert other.ask("POST", CHAT, b'{"messages": []}', timeout_s=HANG_S).status == 200
        assert (
            other.ask("POST", CHAT, b'{"messages": [], "user": "' + b"x " * 50_000 + b'"}', timeout_s=HANG_S).status
            == 200
        )
        assert server.memory_mib() < 600


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
def test_lengths_that_lie_are_refused(server: Target, headers: dict[str, str]) -> None:
    """Whatever is announced, the answer is one of the client's errors, or the connection ends."""
    answer = server.ask("POST", CHAT, None, timeout_s=1, **headers)  # clock: no answer is as good as a refusal
    assert answer.status in (0, 400, 413)


def test_a_websocket_opens_nothing(server: Target) -> None:
    """Without a key, with one at a path that is none, and at a path with a newline."""
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec_websocket_version": "13",
               "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    nobody = replace(server, key="")
    assert nobody.ask("GET", "/v1/realtime", **upgrade).status == 403
    assert [server.ask("GET", path, **upgrade).status for path in ("/v1/chat/completions", "/v1/realtime%0a")] == [
        403
    ] * 2


def test_a_rebound_name_is_refused_where_hosts_are_named() -> None:
    """A page whose own name resolves to this server: its requests carry its name. Probes carry an address."""
    with start(allowed_hosts=["llm.example.com"]) as server:
        statuses = {
            host: server.ask("GET", "/v1/models", host=host).status for host in ("evil.com", "LLM.example.com:8501")
        }
        assert statuses == {"evil.com": 421, "LLM.example.com:8501": 200}
        assert server.ask("GET", "/health", host="10.0.0.7:8501").status == 200
