"""Silent connections to a facts port, of a serving pod and of a download: it is read, and threads stay few."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass_base.bounded_server import MOST_CONNECTIONS
from windlass_download import facts
from windlass_testbed.waiting import HANG_S, wait_until

MANY = 300
OWN_THREADS = 1
"""The one that accepts."""


@contextmanager
def of_a_serving_pod() -> Iterator[int]:
    with FactsServer(FactsBoard("s", EngineFacts("vllm", "0", ())), 0, "127.0.0.1") as server:
        yield server.port


@contextmanager
def of_a_download() -> Iterator[int]:
    server = facts.serve(0, lambda: {"service": "s"})
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("facts_port", [of_a_serving_pod, of_a_download])
def test_silent_connections_keep_no_reader_out(facts_port) -> None:
    """Some five times as many as the port has threads, each in the middle of a head."""
    before = threading.active_count()
    with facts_port() as port, ExitStack() as stack:
        for _ in range(MANY):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HANG_S))
            one.sendall(b"GET /windlass/facts HTTP/1.1\r\nx: ")
        answer = httpx.get(f"http://127.0.0.1:{port}/windlass/facts", timeout=HANG_S)
        assert answer.json()["service"] == "s"
        most = before + OWN_THREADS + MOST_CONNECTIONS
        wait_until(lambda: threading.active_count() <= most, "threads of connections that made room have ended")
