"""A real HTTP server on a free port: what it answers is the test's function, and it keeps what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from windlass.license import gpus, nvml
from windlass_testbed import ports


@dataclass
class Seen:
    """One request."""

    method: str
    path: str
    body: dict
    authorization: str
    headers: dict[str, str]


Answer = Callable[[Seen], tuple[int, str] | tuple[int, str, dict[str, str]]]
"""Status and text, and headers when there are any."""


@dataclass
class Server:
    """A running server."""

    answer: Answer
    url: str = ""
    seen: list[Seen] = field(default_factory=list)


@pytest.fixture(autouse=True)
def _no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own GPUs change no test: one that needs some gives them."""
    monkeypatch.setattr(gpus, "SMI", "no-nvidia-smi")
    monkeypatch.setattr(nvml, "LIBRARY", "no-nvml.so")


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    return ports.free_port()


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    """`serve(lambda seen: (200, "text"))` starts a server that lives as long as the test."""
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(_serving(Server(answer)))


@contextmanager
def _serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen = Seen(
                self.command,
                self.path,
                json.loads(raw or b"{}"),
                self.headers.get("Authorization", ""),
                {name.lower(): value for name, value in self.headers.items()},
            )
            server.seen.append(seen)
            status, text, *headers = server.answer(seen)
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.02}
    )  # how soon it sees that the test is over
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
