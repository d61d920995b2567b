"""A port-forward by kubectl itself: it knows every cluster's way in, and runs only while it is needed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from windlass_base.kube.errors import UnreachableError

SERVER_PORT = 8501
READY_S = 30.0
STOP_S = 5.0
TOLD_MAX = 400  # characters
STDERR_MAX = 64 << 10  # bytes
PENDING, PENDING_S = "Current status=Pending", 60.0  # what kubectl says of a pod that is being started
FORWARDING = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ->")


@dataclass(frozen=True, slots=True)
class Forward:
    """A port-forward that runs; `url` is the service's base URL on this machine."""

    url: str
    process: asyncio.subprocess.Process
    name: str

    def check(self) -> None:
        """UnreachableError when kubectl has ended: any program of this machine may have its port by now."""
        if self.process.returncode is not None:
            raise UnreachableError(f"kubectl port-forward to service/{self.name} has ended; start the command again")


@asynccontextmanager
async def port_forward(
    name: str, flags: list[str], program: str = "kubectl", port: int = SERVER_PORT
) -> AsyncIterator[Forward]:
    """A port-forward to the service `name`, on a free port of 127.0.0.1."""
    words = ["port-forward", "--address=127.0.0.1", *flags, f"service/{name}", f":{port}"]
    process, local = await _started(program, words, name)
    try:
        yield Forward(f"http://127.0.0.1:{local}", process, name)
    finally:
        await _stop(process)


async def _started(program: str, words: list[str], name: str) -> tuple[asyncio.subprocess.Process, int]:
    """The process and its port; a pod that is being started is waited for."""
    deadline = time.monotonic() + PENDING_S
    while True:
        process = await _process(program, words)
        try:
            return process, await _port(process, name)
        except UnreachableError as error:
            if PENDING not in str(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(1)


async def _process(program: str, words: list[str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours: we end it in order
        )
    except OSError as error:
        raise UnreachableError(
            f"{program} cannot be started ({error.strerror}); put it on the PATH, or give --address"
        ) from error


async def _port(process: asyncio.subprocess.Process, name: str) -> int:
    """The port that kubectl says; its own words when it says none."""
    assert process.stdout  # noqa: S101 - made with a pipe above
    assert process.stderr  # noqa: S101 - as above
    with suppress(TimeoutError, ValueError):  # a line beyond asyncio's limit of 64 KiB
        while line := await asyncio.wait_for(process.stdout.readline(), READY_S):
            found = FORWARDING.match(line.decode(errors="replace"))
            if found:
                return int(found[1])
    await _stop(process)
    told = (await process.stderr.read(STDERR_MAX)).decode(errors="replace").strip()
    raise UnreachableError(f"kubectl port-forward to service/{name} failed: {told[-TOLD_MAX:] or 'no answer'}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()
