"""The attacks against the DeepSpeed server's process: what is refused before it is parsed, and what stays open."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_testbed.waiting import HANG_S

from . import attacks
from .attacks import CHAT, MIB, Target

PROGRAM = Path(__file__).with_name("deepspeed_like.py")
HELLO = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}).encode()
HEALTH_S = 60.0  # ends a hang; the figure is printed


@pytest.fixture(scope="module")
def server():
    with attacks.served(PROGRAM, OPENAI_API_KEYS="key-of-alice,key-of-bob", KEY="key-of-alice") as target:
        yield target


def test_a_key_is_asked_for_before_a_body_is_read(server: Target) -> None:
    """96 MiB without a key: 401 at once, /health and memory stay (finding 6)."""
    nobody = replace(server, key="")
    with attacks.watching(server) as watch:
        answer = nobody.ask("POST", CHAT, b'{"messages":[' + b"{}," * (32 * MIB) + b"{}]}", timeout_s=60)
    assert answer.status in (0, 401)  # 0: the server ended the connection while it was still being sent to
    print(f"\na probe waited {watch.longest_s:.2f} s at most")
    assert (watch.longest_s < HEALTH_S, watch.failed) == (True, 0)
    assert watch.most_mib < 300
    assert nobody.ask("POST", CHAT, HELLO).status == 401
    assert server.ask("POST", CHAT, HELLO).status == 200


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/redoc", "/docs/oauth2-redirect"])
def test_the_description_is_off(server: Target, path: str) -> None:
    """Without a key it asks for one, with one it is not there."""
    assert replace(server, key="").ask("GET", path).status == 401
    assert server.ask("GET", path).status == 404


def test_bodies_that_cost_a_parser_most_cost_nobody_else(server: Target) -> None:
    """Of a size that is allowed, with a right key."""
    figures = attacks.body_bombs(server, size=4 * MIB - 100)
    assert {status for one in figures.values() for status in one["statuses"]} <= {400, 413}
    assert max(one["health_longest_s"] for one in figures.values()) < HEALTH_S
    assert server.ask("POST", CHAT, b"x" * (5 * MIB)).status == 413


def test_numbers_without_a_float_are_refused(server: Target) -> None:
    """In every field with a range; fields that this server does not have are ignored."""
    figures = attacks.hostile_numbers(server)
    assert all(set(statuses) <= {200, 400} for statuses in figures.values())
    assert figures["400 digits"] == figures["5000 digits"] == [400]


@pytest.mark.parametrize(
    "path", ["/v1/models%0a", "/health%0a", "/v1/chat/completions%00", "/v1%2fmodels", "/./health"]
)
def test_paths_have_one_reading(server: Target, path: str) -> None:
    """As in front of vLLM."""
    assert server.ask("GET", path).status == 400


def test_answers_of_many_faults_are_short(server: Target) -> None:
    """A fault in each of 8,000 messages is not named 8,000 times; too many prompts are refused."""
    answer = server.ask("POST", CHAT, json.dumps({"messages": [{}] * 8_000}).encode())
    assert (answer.status, len(answer.text) < 1_000) == (400, True)
    answer = server.ask("POST", "/v1/completions", json.dumps({"prompt": ["a"] * 129, "max_tokens": 1}).encode())
    assert (answer.status, "at most 128 prompts" in answer.text) == (400, True)


def test_bodies_that_never_end_keep_no_other_key_waiting(server: Target) -> None:
    """More of them than places."""
    with attacks._many(server, 60, server.head("POST", CHAT, 3 * MIB) + b'{"messages": ['):
        assert replace(server, key="key-of-bob").ask("POST", CHAT, HELLO, timeout_s=HANG_S).status == 200
