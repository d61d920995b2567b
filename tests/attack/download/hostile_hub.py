"""A hub that lies, and the real command against it as a process of its own, held to a memory and a time.

`Hub.answer` gets the socket and the request, and may write any bytes. Requests that it leaves alone are answered as
Hugging Face does, with a small model.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "operator/download/tests/download"))
from processes import Zygote
from windlass_testbed.waiting import HANG_S

NAME = "qwen/Qwen2-Tiny"
COMMIT = "c" * 40
TOKEN = "hf_planted-token-4f1c9a"
MEMORY_MIB = 700  # the Job's limit is 1024, page cache included
FILES = {"config.json": b'{"seed": 1}', "model.safetensors": bytes(range(256)) * 1024}


@dataclass(frozen=True)
class Request:
    """One request; `kind` is revision, tree or resolve."""

    path: str
    kind: str
    headers: Mapping[str, str]


Act = Callable[[socket.socket, Request], bool]  # whether it has answered


def nothing(_: socket.socket, __: Request) -> bool:
    return False


@dataclass
class Outcome:
    """What became of the command."""

    code: int
    report: dict | None
    text: str  # the termination message
    peak_mib: float
    seconds: float
    why_killed: str = ""

    @property
    def reason(self) -> str:
        """The report's reason, `done`, or how the process ended without one."""
        if self.report is None:
            return self.why_killed or f"no report, exit code {self.code}"
        return "done" if self.report["ok"] else self.report["reason"]


@dataclass
class Hub:
    """The server; `with Hub(answer) as hub:` runs it. `tls` is a folder with tls.crt and tls.key."""

    act: Act = nothing
    tls: Path | None = None
    seen: list[Request] = field(default_factory=list)

    def __enter__(self) -> Hub:
        self.server = _Server(self)
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def asked(self, kind: str) -> int:
        return sum(one.kind == kind for one in self.seen)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub, self.ended = hub, threading.Event()
        if hub.tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(hub.tls / "tls.crt", hub.tls / "tls.key")
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_: object) -> None:
        """Clients are killed here."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            while line := self.rfile.readline(65536):
                path = line.decode("latin-1").split(" ")[1]
                headers: dict[str, str] = {}
                while row := self.rfile.readline(65536).decode("latin-1").strip():
                    name, _, value = row.partition(":")
                    headers[name.lower()] = value.strip()
                request = Request(path, kind_of(path), headers)
                self.server.hub.seen.append(request)
                if self.server.hub.act(self.connection, request):
                    return
                self.connection.sendall(honest(request))


def kind_of(path: str) -> str:
    return next((word for word in ("revision", "tree", "resolve") if f"/{word}/" in path), "other")


def answer(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; underscores in header names are dashes."""
    rows = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    return (
        f"HTTP/1.1 {status}\r\n".encode() + "".join(f"{k}: {v}\r\n" for k, v in rows.items()).encode() + b"\r\n" + body
    )


def row(path: str, data: bytes, **other: object) -> dict:
    """A file as Hugging Face lists it."""
    lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return {"type": "file", "path": path, "size": len(data), "oid": "0" * 40, "lfs": lfs, **other}


def honest(request: Request) -> bytes:
    """The answer of a hub that lies in nothing."""
    if request.kind == "revision":
        return answer(json.dumps({"sha": COMMIT}).encode())
    if request.kind == "tree":
        return answer(json.dumps([row(path, data) for path, data in FILES.items()]).encode())
    data = FILES.get(request.path.partition(f"{COMMIT}/")[2])
    if data is None:
        return answer(b"", "404 Not Found")
    start, end = 0, len(data)
    if wanted := request.headers.get("range"):
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1
        return answer(data[start:end], "206 Partial Content", Content_Range=f"bytes {start}-{end - 1}/{len(data)}")
    return answer(data)


def on(kind: str, reply: bytes | Callable[[socket.socket, Request], None]) -> Act:
    """Answer requests of one kind with these bytes, or by that function, and close."""

    def act(connection: socket.socket, request: Request) -> bool:
        if request.kind != kind:
            return False
        if isinstance(reply, bytes):
            connection.sendall(reply)
        else:
            reply(connection, request)
        return True

    return act


def drip(connection: socket.socket, data: bytes, pause_s: float = 0.02, times: int = 10_000) -> None:
    """A byte now and then."""
    for number in range(times):
        connection.sendall(data[number % len(data) :][:1])
        time.sleep(pause_s)  # clock: the pace of the attack


class Runner:
    """Runs the command; forked from one loaded process, since loading takes longer than most attacks."""

    def __init__(self, zygote: Zygote, folder: Path) -> None:
        self.zygote, self.folder, self.volume = zygote, folder, folder / "volume"
        self.volume.mkdir()

    def words(self, hub: Hub, *more: str, path: str = "models/tiny", name: str = "huggingface") -> list[str]:
        words = [f"--root={self.volume}", f"--path={path}", f"--hub={name}", f"--name={NAME}"]
        words += [f"--endpoint={hub.url}", "--part-kib=64", "--stall-s=15", "--stale-s=15", "--connections=2"]
        return [*words, "--give-up-s=20", f"--termination-log={self.folder / 'log'}", *more]

    def run(self, hub: Hub, *more: str, limit_s: float = 2 * HANG_S, **where: str) -> Outcome:
        """The command's end; it is killed beyond `limit_s` or MEMORY_MIB."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        began, peak, why = time.monotonic(), 0.0, ""
        pid = self.zygote.start(self.words(hub, *more, **where))
        while (now := _resident_mib(pid)) is not None:
            peak, seconds = max(peak, now), time.monotonic() - began
            why = f"more than {MEMORY_MIB} MiB" if peak > MEMORY_MIB else "no end" if seconds > limit_s else ""
            if why:
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.005)  # clock: how often it is weighed
        code = self.zygote.wait(pid)
        text = log.read_text() if log.is_file() else ""
        return Outcome(code, json.loads(text) if text else None, text, peak, time.monotonic() - began, why)


def _resident_mib(pid: int) -> float | None:
    """Resident memory; None once the process has ended."""
    try:
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = next((one for one in rows if one.startswith("VmRSS:")), "")
    return int(found.split()[1]) / 1024 if found else None
