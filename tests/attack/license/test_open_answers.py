"""Floods of what anybody may read: an answer costs about what the greeting costs, however much is licensed and leased.

Processor time of the server is compared with its own for other requests, so the machine's speed takes no part.
"""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from siege import Castle, ask, body, castle, gpu
from windlass_testbed.waiting import HANG_S

GPUS, ROUNDS, PIPELINED = 5_000, 4, 200
AT_MOST = 4.0
"""Times the processor time of as many greetings; 40 and more when each request counts the GPUs."""
ADMIN_TOKEN = "t"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Castle]:
    """A server with many GPUs, all leased, that takes any number of requests of an address."""
    with castle(tmp_path_factory.mktemp("open"), "--requests-per-peer=0") as one:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WINDLASS_LICENSE_ADMIN_TOKEN", ADMIN_TOKEN)
            one.restart()
        one.up.token = ADMIN_TOKEN
        one.license(gpus=GPUS)
        for first in range(0, GPUS, 50):
            assert ask(one.up, body([gpu(first + n) for n in range(50)], f"pod-{first}"), "127.0.1.1")[0] == 200
        yield one


def read(held: Castle, path: str, source: str, number: int) -> bytes:
    """The answers to so many requests on one connection."""
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    last = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection((held.up.host, held.up.port), HANG_S, source_address=(source, 0)) as line:
        line.sendall(request * (number - 1) + last)
        pieces = []
        while piece := line.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def processor_s(held: Castle, path: str) -> float:
    """Processor time of the server for all rounds of a path, whose answers are right."""
    before = held.up.cpu_s()
    for number in range(ROUNDS):
        answers = read(held, path, f"127.0.2.{number + 1}", PIPELINED)
        assert answers.count(b"HTTP/1.1 200 ") == PIPELINED
    return held.up.cpu_s() - before


@pytest.mark.parametrize("path", ["/ls/view", "/metrics", "/openapi.json", "/healthz", "/readyz"])
def test_an_open_answer_costs_what_a_greeting_costs(path: str, held: Castle) -> None:
    """The first one may cost more."""
    read(held, path, "127.0.2.1", 1)
    greetings = processor_s(held, "/")
    assert processor_s(held, path) <= AT_MOST * greetings


def test_long_open_answers_have_a_smaller_rate(tmp_path: Path) -> None:
    """An address gets twenty at once; its plain requests and other addresses have their own."""
    with castle(tmp_path) as one:
        one.license()
        for number, path in enumerate(("/ls/view", "/metrics", "/openapi.json"), 1):
            answers = read(one, path, f"127.0.2.{number}", 60)
            assert 15 <= answers.count(b"HTTP/1.1 200 ") < 50
            assert answers.count(b"HTTP/1.1 429 ") == 1
        assert read(one, "/readyz", "127.0.1.1", 60).count(b"HTTP/1.1 200 ") == 60


def test_pipelined_requests_beyond_the_rate_write_no_traceback(tmp_path: Path) -> None:
    """Their connection has the answers that are due, then one 429, and closes."""
    with castle(tmp_path, "--requests-per-peer", "1") as one:
        one.license()
        for number in range(10):
            answers = read(one, "/ls/view", f"127.0.2.{number + 1}", 300)
            first, *others = [int(answer[:3]) for answer in answers.split(b"HTTP/1.1 ")[1:]]
            assert (first, others[-1], others.count(429)) == (200, 429, 1)
        assert ask(one.up, body([gpu(0)], "healthy"), "127.0.1.1")[0] == 200
        assert "Traceback" not in (tmp_path / "server.log").read_text()
