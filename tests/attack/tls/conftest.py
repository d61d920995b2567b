"""A license server that speaks HTTPS, for all attacks on its TLS."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from windlass_testbed.certificate import certify
from windlass_testbed.ports import free_port
from windlass_testbed.waiting import HANG_S, wait_until

PROGRAM = Path(sys.executable).parent / "windlass-license"
FILES = 256
"""File descriptors that the process may open."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server's log goes."""
    return tmp_path_factory.mktemp("log") / "server.log"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[int]:
    """The port of a license server that speaks HTTPS with a certificate of its own."""
    folder = tmp_path_factory.mktemp("tls")
    certify(folder)
    subprocess.run([PROGRAM, "keygen", "--out", folder / "keys"], check=True, capture_output=True)
    number = free_port()
    few = ("prlimit", f"--nofile={FILES}:{FILES}")
    where = ("--host=127.0.0.1", f"--port={number}", "--data", folder / "data", "--tls-dir", folder)
    words = (PROGRAM, "serve", "--lease-auth=none", *where, "--public-key", folder / "keys/public.pem")
    with log.open("wb") as lines:
        process = subprocess.Popen([*few, *words], env=os.environ, stderr=lines)
    try:
        _wait(number)
        yield number
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(HANG_S)


def _wait(port: int) -> None:
    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), HANG_S):
            return True
        return False

    wait_until(listens, f"the license server's listening on {port}")
