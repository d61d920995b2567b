"""A hub that lies to `windlass plan OWNER/NAME --hub`: one harmless sentence each, within memory and time."""

from __future__ import annotations

import gzip
import json
import socket

import pytest
from hostile_server import ACTS, ESCAPES, Ended, Server, answer, flood

TOKEN = "hf_planted-token-4f1c9a"
MIB = 1024**2
STEERING = ESCAPES.replace("\r", "").encode()


@pytest.fixture
def plan(windlass, tmp_path):
    """Plan by a hub of these answers."""

    def ran(answers: dict, **how) -> Ended:
        with Server(answers) as server:
            words = ("plan", "qwen/Qwen2-7B", "--hub", "huggingface", "--endpoint", server.url)
            ended = windlass.run(tmp_path, *words, WINDLASS_HUB_TOKEN=TOKEN, **how)
            ended.seen = server.seen
        return ended

    return ran


LIES = {
    "no JSON": answer(b"<html>"),
    "a list": answer(b"[]"),
    "nested": answer(b"[" * 100_000),
    "no UTF-8": answer(b"\xff\xfe\x00"),
    "numbers without a float": answer(b'{"hidden_size": 1e999}'),
    "without an end": flood(b"{", b" " * MIB),
    "packed": answer(gzip.compress(bytes(300 * MIB), 1), head="Content-Encoding: gzip\r\n"),
    "packed badly": answer(b"no gzip", head="Content-Encoding: gzip\r\n"),
    "a reason that steers": answer(b"", "500 " + ESCAPES.split("\r")[0]),
    "an error that steers": answer(STEERING, "500 No"),
    "a head without an end": flood(b"", b"", 0, "200 OK\r\nX: " + "x" * MIB),
    "no HTTP": b"\x00\x01\x02",
    "nothing": b"",
    "a redirect to itself": answer(b"", "302 Found", "Location: /qwen/Qwen2-7B/resolve/main/config.json\r\n"),
    "a redirect to a file": answer(b"", "302 Found", "Location: file:///etc/passwd\r\n"),
    "a redirect to nowhere": answer(b"", "302 Found", "Location: http://[\r\n"),
    "a model of escapes": answer(json.dumps({"architectures": [ESCAPES], "model_type": ESCAPES}).encode()),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_is_one_harmless_sentence(plan, lie):
    """On a terminal; never a traceback, and never the token."""
    ended = plan({"/config.json": lie}, terminal=True)
    assert ended.why == ""
    assert ended.code != 0
    assert ACTS.findall(ended.text) == []
    assert "Traceback" not in ended.text
    assert TOKEN not in ended.text


def test_the_token_stays_at_its_host(plan):
    """A redirect to another port is another host."""
    shown: list[bytes] = []

    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(30)
        where = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/x"

        def redirect(connection: socket.socket, _: str) -> None:
            connection.sendall(answer(b"", "302 Found", f"Location: {where}\r\n"))
            line, _peer = elsewhere.accept()
            with line:
                shown.append(line.recv(65536))
                line.sendall(answer(b"[]"))

        ended = plan({"/config.json": redirect})
    assert ended.code != 0
    assert shown
    assert TOKEN.encode() not in shown[0]
