"""A real license server process under attack, and the parts that attacks are made of.

The attacks connect from addresses of the loopback that stand for pods: 127.0.1.x are healthy, 127.0.2.x attack.
WINDLASS_ATTACK_SOURCE runs another version of the server: the `src` directory of its license_server.
"""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from windlass_testbed.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "license_server" / "bench"))
from license_process import Server, license_file, started  # noqa: E402  found by the line above

GPUS = 16


def gpu(number: int) -> str:
    """A GPU that the license of `Castle` names."""
    return f"GPU-{number:08d}-bench"


def current() -> bool:
    """Whether the server of this checkout is attacked, not another version."""
    return "WINDLASS_ATTACK_SOURCE" not in os.environ


@dataclass
class Castle:
    """The server, its folder and key; it can be stopped and started again on the same data."""

    folder: Path
    flags: tuple[str, ...] = ()
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    server: Server | None = None
    files: int = 0
    """File descriptors that the process may open; 0 leaves what this process has."""
    before: tuple[str, ...] = ()
    """Words in front of the server's command: a program that becomes the server."""

    def start(self) -> float:
        """Start the process; the seconds until it was ready."""
        begun, environment = time.monotonic(), dict(os.environ)
        if source := os.environ.get("WINDLASS_ATTACK_SOURCE"):
            environment["PYTHONPATH"] = source
        before = ("prlimit", f"--nofile={self.files}:{self.files}") if self.files else self.before
        wrapper = (*before, sys.executable, "-m", "windlass_license.cli") if before else ()
        self.server = started(self.folder, self.key, self.flags, wrapper, environment)
        return time.monotonic() - begun

    def stop(self) -> None:
        """End the process by its id."""
        if self.server is not None:
            self.server.process.kill()
            self.server.process.wait(30)
            self.server = None

    @property
    def up(self) -> Server:
        """The running server."""
        assert self.server is not None
        return self.server

    def restart(self) -> float:
        """Kill it and start it again; the seconds until it was ready."""
        self.stop()
        return self.start()

    def license(self, limit: int = 0, gpus: int = GPUS) -> None:
        """Put a license in force."""
        self.up.upload(license_file(self.key, gpus, limit))

    def events(self) -> list[str]:
        """The events of the audit log, oldest first."""
        return [record["event"] for record in self.records("limit=10000")]

    def records(self, query: str) -> list[dict[str, object]]:
        """Records of the audit log, oldest first."""
        rows = self.up.get(f"/ls/audit?{query}").split(b"\n")
        return [json.loads(row) for row in rows if row]


@contextmanager
def castle(folder: Path, *flags: str, files: int = 0, before: tuple[str, ...] = ()) -> Iterator[Castle]:
    """A started server, ended afterwards."""
    built = Castle(folder, flags, files=files, before=before)
    try:
        built.start()
        yield built
    finally:
        built.stop()


def body(gpus: list[str], uid: str = "uid", pod: str = "pod", namespace: str = "siege") -> bytes:
    """A lease request."""
    holder = {"namespace": namespace, "pod": pod, "uid": uid, "service": "s"}
    return json.dumps({"gpus": gpus, "holder": holder}).encode()


def post(data: bytes) -> bytes:
    """The bytes of `POST /v1/leases` with this body."""
    head = "POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def ask(
    server: Server, data: bytes, source: str = "127.0.2.1", timeout_s: float = HANG_S
) -> tuple[int, dict[str, object]]:
    """One request on a connection of its own, from this address; status 0 when the connection was closed."""
    answer = send(server, post(data).replace(b"Host: x", b"Host: x\r\nConnection: close", 1), source, timeout_s)
    head, _, content = answer.partition(b"\r\n\r\n")
    return (int(head[9:12]), json.loads(content or b"{}")) if head else (0, {})


def send(server: Server, data: bytes, source: str = "127.0.2.1", timeout_s: float = HANG_S) -> bytes:
    """Send these bytes and read until the server closes."""
    answer = b""
    with socket.create_connection((server.host, server.port), timeout_s, source_address=(source, 0)) as line:
        try:
            line.sendall(data)
            while piece := line.recv(65536):
                answer += piece
        except ConnectionError:
            pass
    return answer


@dataclass
class Line:
    """A keep-alive connection from an address, which opens itself again."""

    server: Server
    source: str
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, data: bytes) -> tuple[int, dict[str, object]]:
        """Status and body of the answer; ConnectionError when the server closed."""
        if self._streams is None:
            where = (self.server.host, self.server.port)
            self._streams = await asyncio.open_connection(*where, local_addr=(self.source, 0))
        reader, writer = self._streams
        try:
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return int(head[9:12]), json.loads(await reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise ConnectionError(f"{self.source}: closed") from error

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
