"""Connections to the license server that never finish their TLS handshake: they count, they end, others are answered.

127.0.2.x attack, 127.0.1.1 is a healthy pod. The server may open 256 files, as a small pod may.
"""

import contextlib
import itertools
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from windlass_testbed.connections import is_open
from windlass_testbed.probing import probing
from windlass_testbed.waiting import HANG_S, wait_until

PER_PEER = 64
LOOK_S = 0.5
"""Figures are at most a second old, and an address may ask for them five times a second."""
HALVES = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
"""Nothing, a byte, the first bytes of a client's first message."""


@pytest.fixture
def half(port: int) -> Iterator:
    """`half(source, sent)` begins a connection; all are closed at the end."""
    with contextlib.ExitStack() as stack:

        def begin(source: str, sent: bytes = b"") -> socket.socket:
            line = socket.create_connection(("127.0.0.1", port), HANG_S, source_address=(source, 0))
            stack.enter_context(line)
            with contextlib.suppress(OSError):  # refused already, which is as good
                line.sendall(sent)
            return line

        yield begin


def get(port: int, path: str) -> str:
    """The answer to a healthy pod; empty when the server closes its connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    answer = b""
    with contextlib.suppress(ConnectionError):
        plain = socket.create_connection(("127.0.0.1", port), HANG_S, source_address=("127.0.1.1", 0))
        with plain, context.wrap_socket(plain) as line:
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            while piece := line.recv(65536):
                answer += piece
    return answer.decode()


def turned_away(port: int, limit: str) -> float:
    """How many connections this limit has refused or ended."""
    row = f'windlass_license_turned_away_total{{limit="{limit}"}} '
    looks = (get(port, "/metrics").partition(row)[2].partition("\n")[0] for _ in itertools.count())
    return float(wait_until(lambda: next(looks), "figures for a healthy pod", look_s=LOOK_S))


@pytest.mark.parametrize("sent", HALVES, ids=["nothing", "a byte", "half a hello"])
def test_half_handshakes_end(port, half, sent):
    """By the deadline of a header, which the server counts; TLS alone would wait for a minute and count nothing."""
    before = turned_away(port, "time")
    assert half("127.0.2.1", sent).recv(1) == b""
    wait_until(lambda: turned_away(port, "time") == before + 1, look_s=LOOK_S)


def test_an_address_has_so_many_half_handshakes(port, half):
    """As many as it may have connections."""
    before = turned_away(port, "peer")
    lines = [half("127.0.2.2") for _ in range(2 * PER_PEER)]
    wait_until(lambda: turned_away(port, "peer") == before + PER_PEER, look_s=LOOK_S)
    wait_until(lambda: not any(map(is_open, lines)), "the end of all")


def test_half_handshakes_leave_room(port, half, log: Path):
    """1,000 from ten addresses, more than the process may have files; the log has no traceback of them."""
    before = turned_away(port, "total")
    with probing(lambda: get(port, "/healthz").startswith("HTTP/1.1 200 ")) as probe:
        lines = [half(f"127.0.2.{number % 10 + 1}", HALVES[number % 3]) for number in range(1000)]
        answer = wait_until(lambda: get(port, "/healthz"), "an answer to a healthy pod")
        assert answer.startswith("HTTP/1.1 200 ")
        wait_until(lambda: not any(map(is_open, lines)), "the end of every half handshake")
    probe.record(__file__, "H2, 1,000 half handshakes, 256 files: /healthz of the license server")
    wait_until(lambda: turned_away(port, "total") > before, look_s=LOOK_S)
    assert "Traceback" not in log.read_text()
