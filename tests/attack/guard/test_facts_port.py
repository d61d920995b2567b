"""Connections to the facts port that say nothing: the operator still reads, and threads stay few."""

import socket
import threading
from contextlib import ExitStack

import httpx
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass_testbed.waiting import HANG_S

MANY = 300


def test_silent_connections_keep_no_reader_out() -> None:
    """Some five times as many as the port has threads, each in the middle of a head."""
    before = threading.active_count()
    board = FactsBoard("s", EngineFacts("vllm", "0", ()))
    with FactsServer(board, 0, "127.0.0.1") as server, ExitStack() as stack:
        for _ in range(MANY):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S))
            one.sendall(b"GET /windlass/facts HTTP/1.1\r\nx: ")
        answer = httpx.get(f"http://127.0.0.1:{server.port}/windlass/facts", timeout=HANG_S)
        assert answer.json()["service"] == "s"
        assert threading.active_count() - before < MANY / 2
