"""Servers as processes: starts them by an arm's flags, waits until they are ready, ends them with their children."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from windlass.bench.running.matrix import Arm
from windlass.errors import ServerError

STOP_S = 45.0
"""Seconds; `windlass run` itself gives its engine 30 s to end."""
POLL_S = 0.5
PROBE_TIMEOUT_S = 5.0
SAID_LINES = 12
PR_SET_PDEATHSIG = 1
OURS = ("-m", "windlass.cli.main", "run")
ENGINES = ("-m", "vllm.entrypoints.cli.main", "serve")
NAME = "bench"
"""The served name of the model, the same on every server."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings that all servers share."""

    model: Path
    logs: Path
    limit_s: float
    is_together: bool = False


@dataclass(frozen=True, slots=True)
class Server:
    """A running process with a session of its own."""

    arm: Arm
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self.port}"


def command(arm: Arm, model: Path, port: int) -> list[str]:
    """The start command; for the engine's own server that of vLLM, not the image's `vllm`, which is ours."""
    start = [*ENGINES, str(model)] if arm.is_stock else [*OURS, "--model", str(model)]
    place = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", NAME]
    return [sys.executable, *start, *place, *arm.words]


def variables(arm: Arm, facts_port: int | None = None) -> dict[str, str]:
    """The variables of a server: a facts port of its own, and none of our plug-ins in the engine's own server."""
    if arm.is_stock:
        return {"VLLM_PLUGINS": ""}
    return {} if facts_port is None else {"WINDLASS_FACTS_PORT": str(facts_port)}


def start(arms: Sequence[Arm], wanted: Wanted) -> list[Server]:
    """Start the servers without waiting; each has a log file of its own."""
    ports = _free_ports(2 * len(arms))  # all at once: one that is given back may be given again
    return [_start(arm, wanted, *ports[2 * at : 2 * at + 2]) for at, arm in enumerate(arms)]


def _start(arm: Arm, wanted: Wanted, port: int, facts_port: int) -> Server:
    words = command(arm, wanted.model, port)
    wanted.logs.mkdir(parents=True, exist_ok=True)
    log = wanted.logs / f"{arm.folder}.log"
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(words)}\n".encode())
        file.flush()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, **variables(arm, facts_port), **(_own_cache(arm) if wanted.is_together else {})},
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread of ours runs while a server starts
        )
    return Server(arm, process, port, log)


def _own_cache(arm: Arm) -> dict[str, str]:
    """A folder of compiled code for each server, so that two engines do not write the same file."""
    root = Path(os.environ.get("VLLM_CACHE_ROOT") or Path.home() / ".cache/vllm")
    return {"VLLM_CACHE_ROOT": str(root / "windlass-bench" / arm.folder)}


_LIBC = ctypes.CDLL(None, use_errno=True)


def _end_with_parent() -> None:
    """Let the kernel send SIGTERM to the server when this process is killed."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def wait(servers: Sequence[Server], limit_s: float, say: Callable[[str], None]) -> dict[str, str]:
    """Wait until each server is ready or has ended; return the reason of each that did not become ready."""
    began, left, failed = time.monotonic(), list(servers), {}
    while left:
        for server in list(left):
            code = server.process.poll()
            if code is not None:
                failed[server.arm.name] = (
                    f"{server.arm.name} ended with code {code} before it was ready{_last_lines(server)}"
                )
            elif not _is_ready(server):
                continue
            else:
                say(f"{server.arm.name} is ready after {time.monotonic() - began:.0f} s")
            left.remove(server)
        if left and time.monotonic() - began > limit_s:
            names = {server.arm.name: f"{server.arm.name} was not ready in {limit_s:.0f} s" for server in left}
            return failed | names
        if left:
            time.sleep(POLL_S)
    return failed


def _is_ready(server: Server) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{server.url}/health", timeout=PROBE_TIMEOUT_S).is_success
    return False


def _last_lines(server: Server) -> str:
    lines = server.log.read_text(encoding="utf-8", errors="replace").splitlines()
    shown = [line for line in lines if line.strip()][-SAID_LINES:]
    return f"; {server.log} ends with:\n" + "\n".join(shown)


def must_run(server: Server) -> None:
    """Raise ServerError when the server has ended by itself."""
    code = server.process.poll()
    if code is not None:
        raise ServerError(f"{server.arm.name} ended with code {code} while it was measured{_last_lines(server)}")


def stop(servers: Sequence[Server]) -> None:
    """Send SIGTERM to all servers, wait, and kill the rest of their sessions by process id."""
    for server in servers:
        with contextlib.suppress(ProcessLookupError):
            server.process.terminate()
    deadline = time.monotonic() + STOP_S
    for server in servers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(max(0.0, deadline - time.monotonic()))
        for pid in _session(server.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.process.wait()


def _session(leader: int) -> list[int]:
    """The processes of the leader's session: workers that outlive it, and the leader when it ignores SIGTERM."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            found += [int(stat.parent.name)] if fields[3] == str(leader) else []
    return found


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
