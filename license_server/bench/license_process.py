"""A real `windlass-license serve` process with a license for the bench, on the loopback, with durability on."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import public_pem
from windlass_license.rules.model import License, LicensedGpu
from windlass_testbed.ports import free_port

STARTED_WITHIN_S = 120
_EDGE = "windlass-bench"


def license_file(key: Ed25519PrivateKey, gpus: int, limit: int) -> bytes:
    """A license for GPU-00000000-bench and so on."""
    now = datetime.now(UTC)
    rows = (LicensedGpu(f"GPU-{n:08d}-bench", "NVIDIA L20", now, now + timedelta(days=30)) for n in range(gpus))
    return sign(License("1", "bench", limit, tuple(rows)), key)


@dataclass
class Server:
    """The process and where it listens."""

    process: subprocess.Popen[bytes]
    host: str
    port: int
    token: str = ""
    """The admin token, where the server has one."""

    def get(self, path: str) -> bytes:
        """One request."""
        return self._send(urllib.request.Request(f"http://{self.host}:{self.port}{path}"))

    def upload(self, blob: bytes) -> bytes:
        """What `curl -F file=@license.dat` sends."""
        head = f'--{_EDGE}\r\nContent-Disposition: form-data; name="file"; filename="l.dat"\r\n\r\n'
        body = head.encode() + blob + f"\r\n--{_EDGE}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={_EDGE}"}
        return self._send(urllib.request.Request(f"http://{self.host}:{self.port}/ls", body, headers))

    def memory_mib(self) -> float:
        """Resident memory of the process, its peak."""
        rows = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return float(next(row.split()[1] for row in rows if row.startswith("VmHWM"))) / 1024

    def cpu_s(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def _send(self, request: urllib.request.Request) -> bytes:
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            content: bytes = answer.read()
        return content


@contextmanager
def running(folder: Path, key: Ed25519PrivateKey, flags: tuple[str, ...] = ()) -> Iterator[Server]:
    """A started server that is stopped, by its id, at the end."""
    server = started(folder, key, flags)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(30)


def started(
    folder: Path,
    key: Ed25519PrivateKey,
    flags: tuple[str, ...] = (),
    wrapper: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
) -> Server:
    """Start the server on `folder`/data and wait until it is the active one; the caller ends it."""
    (folder / "public.pem").write_text(public_pem(key.public_key()))
    port = free_port()
    where = ("--host", "127.0.0.1", "--port", str(port), "--data", str(folder / "data"))
    program = wrapper or (sys.executable, "-m", "windlass_license.cli")
    command = [*program, "serve", *where, "--public-key", str(folder / "public.pem"), *flags]
    environment = {**(environment or os.environ), "WINDLASS_LICENSE_LEASE_AUTH": "none"}
    with (folder / "server.log").open("ab") as log, (folder / "audit.out").open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=log, env=environment)
    server = Server(process, "127.0.0.1", port)
    try:
        _wait(server, folder / "server.log")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return server


def _wait(server: Server, log: Path) -> None:
    deadline = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            server.get("/readyz")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"the server did not come up: {log.read_text()[-2000:]}")
