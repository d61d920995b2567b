"""A kubelet and a pod that answer with script: logs over TLS to the API server, metrics and chats behind its proxy."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCRIPTS = (
    "<img src=x onerror=window.fallen=1>",
    "<script>window.fallen=1</script>",
    "\"'><svg onload=window.fallen=1>",
    "javascript:window.fallen=1",
    "${window.fallen=1}{{constructor.constructor('window.fallen=1')()}}",
)
LINES = (
    *SCRIPTS,
    "\x1b]8;;javascript:window.fallen=1\x07click\x1b]8;;\x07 \x1b[2J\x1b[31m",
    "data: x",
    "event: END",
    "\u2028 end",
)


class Kubelet(BaseHTTPRequestHandler):
    """The log of every container."""

    def do_GET(self) -> None:
        stamp = "2026-01-01T00:00:00.000000000Z " if "timestamps=true" in self.path else ""
        body = "".join(f"{stamp}{line}\n" for line in LINES).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


class Pod(Kubelet):
    """A serving pod: a page in the place of metrics, script in the place of words."""

    def do_GET(self) -> None:
        body = f'vllm:num_requests_running{{engine="{SCRIPTS[0]}"}} 1\n<html>{SCRIPTS[1]}</html>'.encode()
        self.answer("text/html", body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        words = " ".join(SCRIPTS) + f"\n\n[click](javascript:window.fallen=1) ![x](x){SCRIPTS[0]}"
        pieces = [{"choices": [{"index": 0, "delta": {"content": word + " "}}]} for word in words.split(" ")]
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in pieces) + "data: [DONE]\n\n"
        self.answer("text/event-stream", body.encode())

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def kubelet(folder: Path) -> Iterator[int]:
    """Its port on this machine; the API server checks no certificate of kubelets here."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=node",
               "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Kubelet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        with _serving(server):
            yield server.server_port


@contextmanager
def pod(address: str) -> Iterator[str]:
    """The address is this machine's meanwhile: the API server dials no loopback address of a pod."""
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    try:
        with ThreadingHTTPServer((address, 8501), Pod) as server, _serving(server):
            yield address
    finally:
        subprocess.run(["ip", "address", "delete", f"{address}/32", "dev", "lo"], check=True)


@contextmanager
def _serving(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
