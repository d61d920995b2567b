"""A child process: started, told to stop, waited for; and, as process 1, the burying of its orphans."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from windlass.child.output import OutputTail

STOP_SECONDS_MAX = 30.0
REAP_EVERY_S = 5.0
READ_BYTES = 65536
EXIT_POLL_S = 0.1
LAST_OUTPUT_S_MAX = 5.0
CHILDREN = Path("/proc/self/task/1/children")


class Child:
    """One running process, the engine or what it needs beside it, with a process group of its own."""

    waited_for: ClassVar[set[int]] = set()
    """Process ids whose exit codes somebody waits for."""

    def __init__(self, process: Process, output: OutputTail) -> None:
        """Use `start`."""
        self._process = process
        self._output = output
        self.waited_for.add(process.pid)
        self.ended = asyncio.create_task(self._wait())

    @classmethod
    async def start(cls, command: tuple[str, ...], output: OutputTail, variables: Mapping[str, str]) -> Child:
        """Start the command with more variables than our own; what it prints goes to the output."""
        environment = {**os.environ, **variables}
        process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=STDOUT, env=environment, process_group=0
        )
        return cls(process, output)

    def send(self, number: signal.Signals) -> None:
        """Pass a signal on."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, patience_s: float | None = None) -> None:
        """Stop it, hard when it does not listen for this long."""
        self.send(signal.SIGTERM)
        await asyncio.wait({self.ended}, timeout=STOP_SECONDS_MAX if patience_s is None else patience_s)
        if not self.ended.done():
            self._end_group()
            await asyncio.wait({self.ended})

    async def _wait(self) -> int:
        """The exit code. The pipe's end says nothing: workers that outlive a killed engine hold it open."""
        reading = asyncio.create_task(self._read())
        while (code := self._process.returncode) is None:  # noqa: ASYNC110 - asyncio's own wait() waits for the pipe
            await asyncio.sleep(EXIT_POLL_S)
        self.waited_for.discard(self._process.pid)
        self._end_group()
        await asyncio.wait({reading}, timeout=LAST_OUTPUT_S_MAX)
        reading.cancel()
        return code

    async def _read(self) -> None:
        if self._process.stdout is None:
            raise RuntimeError("the process was started without a pipe")
        while chunk := await self._process.stdout.read(READ_BYTES):
            self._output.feed(chunk)

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def reap_orphans() -> None:
    """As process 1 of a container, bury what dead processes leave behind."""
    while True:
        await asyncio.sleep(REAP_EVERY_S)
        bury()


def bury() -> None:
    """Take the exit codes of dead children, but of those that are waited for elsewhere."""
    with contextlib.suppress(OSError):
        for word in CHILDREN.read_text().split():
            if int(word) not in Child.waited_for:
                os.waitpid(int(word), os.WNOHANG)
