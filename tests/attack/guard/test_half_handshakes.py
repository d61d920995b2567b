"""Connections to the serving API that never finish their TLS handshake, beside one that only never asks."""

import contextlib
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from windlass_testbed.certificate import certify
from windlass_testbed.connections import is_open
from windlass_testbed.waiting import HANG_S

from . import attacks

ENGINE_LIKE = Path(__file__).with_name("engine_like.py")
SETTINGS = '{"served_names": ["demo"]}'
HALVES = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
"""Nothing, a byte, the first bytes of a client's first message."""
PER_HALF = 50


@pytest.fixture
def context() -> ssl.SSLContext:
    """A client's, that takes any certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def test_half_handshakes_end_as_soon_as_silence_behind_a_handshake(tmp_path: Path, context: ssl.SSLContext) -> None:
    """All began before it, so all have ended when the next is answered; TLS alone would keep them for a minute."""
    certify(tmp_path)
    with (
        attacks.served(ENGINE_LIKE, WINDLASS_API=SETTINGS, WINDLASS_API_KEYS="", TLS_DIR=str(tmp_path)) as target,
        contextlib.ExitStack() as lines,
    ):
        where = (urlsplit(target.url).hostname, urlsplit(target.url).port)

        def connect() -> socket.socket:
            return lines.enter_context(socket.create_connection(where, HANG_S))

        half = [connect() for _ in HALVES * PER_HALF]
        for number, line in enumerate(half):
            line.sendall(HALVES[number % len(HALVES)])

        def ask() -> None:
            with context.wrap_socket(connect()) as line:
                line.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert line.recv(12) == b"HTTP/1.1 200"

        ask()
        with context.wrap_socket(connect()) as silent:
            assert silent.recv(1) == b""
        ask()  # a handshake is cancelled before the silent connection ends, and closed some turns of the loop later
        assert not any(map(is_open, half))
