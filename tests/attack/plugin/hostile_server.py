"""A server that answers whatever a test says, and commands against it on a terminal or in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from windlass_testbed.waiting import HANG_S

MEMORY_MIB = 400
# What no terminal may be sent: C0 but line ends and tabs, C1, bidi controls, separators. Colours of the plug-in's own
# are taken out before.
ACTS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
COLOUR = re.compile(r"\x1b\[(?:0|1|2|3[1-3])m")
ESCAPES = "\x1b]52;c;cm0gLXJm\x07\x1b]0;title\x07\x1b[2J\x1b[?2004h\x9b31m\u202egnp\u2066x\u2028y\x7f\rz"


@dataclass
class Server:
    """`with Server({"/path": bytes or function of (socket, path)}) as server:`; the longest matching path answers."""

    answers: dict[str, bytes | Callable[[socket.socket, str], None]]
    seen: list[str] = field(default_factory=list)

    def __enter__(self) -> Server:
        self.tcp = _Tcp(self)
        self.url = f"http://127.0.0.1:{self.tcp.server_address[1]}"
        threading.Thread(target=self.tcp.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.tcp.shutdown()
        self.tcp.server_close()


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, server: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server = server

    def handle_error(self, *_: object) -> None:
        """Clients are killed here."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Tcp

    def handle(self) -> None:
        with suppress(OSError, ValueError, IndexError):
            path = self.rfile.readline(65536).decode("latin-1").split(" ")[1]
            length = 0
            while row := self.rfile.readline(65536).strip():
                if row.lower().startswith(b"content-length:"):
                    length = int(row.partition(b":")[2])
            self.rfile.read(length)
            known = self.server.server
            known.seen.append(path)
            found = max(
                (key for key in known.answers if key in path), key=lambda key: ("?" in key, len(key)), default=""
            )
            reply = known.answers.get(
                found, answer(b'{"kind": "Status", "reason": "NotFound", "message": "no"}', "404 No")
            )
            if callable(reply):
                reply(self.connection, path)
            else:
                self.connection.sendall(reply)


def answer(body: bytes, status: str = "200 OK", head: str = "") -> bytes:
    """A whole answer that ends its connection."""
    return f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body


def as_json(value: object, status: str = "200 OK") -> bytes:
    return answer(json.dumps(value).encode(), status)


def flood(head: bytes, piece: bytes, times: int = 4000, status: str = "200 OK") -> Callable[[socket.socket, str], None]:
    """A body without an end (4 GB at most with pieces of a MiB)."""

    def reply(connection: socket.socket, _: str) -> None:
        connection.sendall(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n".encode() + head)
        for _number in range(times):
            connection.sendall(piece)

    return reply


@dataclass
class Ended:
    """What a command did."""

    code: int
    out: bytes
    err: bytes
    peak_mib: float
    why: str = ""

    @property
    def text(self) -> str:
        """Both streams, without colours of ours; a terminal's own carriage returns before line feeds are left out."""
        both = (self.out + self.err).decode("utf-8", "backslashreplace").replace("\r\n", "\n")
        return COLOUR.sub("", both)


class Forks:
    """One loaded program, run again and again."""

    def __init__(self, module: str) -> None:
        words = [sys.executable, str(Path(__file__).with_name("forks.py")), module]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _ask(self, **request: object) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def run(self, folder: Path, *words: str, terminal: bool = False, limit_s: float = 2 * HANG_S, **env: str) -> Ended:
        """The command's end; killed beyond its time or MEMORY_MIB."""
        out, err = folder / "out", folder / "err"
        out.unlink(missing_ok=True), err.unlink(missing_ok=True)
        screen = Screen() if terminal else None
        names = (screen.name, screen.name) if screen else (str(out), str(err))
        env = {"HOME": str(folder), "KUBECONFIG": str(folder / "config"), "NO_PROXY": "*", **env}
        pid = self._ask(words=list(words), out=names[0], err=names[1], env=env)
        began, peak, why = time.monotonic(), 0.0, ""
        while (now := _resident_mib(pid)) is not None:
            peak = max(peak, now)
            late = time.monotonic() - began > limit_s
            why = f"more than {MEMORY_MIB} MiB" if peak > MEMORY_MIB else "no end" if late else ""
            if why:
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.01)  # clock: how often it is weighed
        code = self._ask(wait=pid)
        if screen:
            return Ended(code, screen.close(), b"", peak, why)
        return Ended(code, out.read_bytes(), err.read_bytes(), peak, why)


class Screen:
    """A terminal that keeps what it is sent."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        self.name = os.ttyname(self._slave)
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # the last one to hold the terminal has gone
            while data := os.read(self._master, 65536):
                self._kept += data

    def close(self) -> bytes:
        os.close(self._slave)
        self._thread.join(HANG_S)
        os.close(self._master)
        return bytes(self._kept)


def _resident_mib(pid: int) -> float | None:
    try:
        rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = next((one for one in rows if one.startswith("VmRSS:")), "")
    return int(found.split()[1]) / 1024 if found else None


def kubeconfig(folder: Path, server: Server) -> None:
    """The plug-in's way to the server."""
    document = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server.url}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "default"}}],
    }
    (folder / "config").write_text(json.dumps(document))
