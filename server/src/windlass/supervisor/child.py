"""The engine as a child process: started, told to stop, waited for; and, as process 1, the burying of its orphans."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Mapping
from pathlib import Path

from windlass.supervisor.output import OutputTail

STOP_SECONDS_MAX = 30.0
REAP_EVERY_S = 5.0
READ_BYTES = 65536
CHILDREN = Path("/proc/self/task/1/children")


class Child:
    """One running engine."""

    def __init__(self, process: Process, output: OutputTail) -> None:
        """Use `start`."""
        self._process = process
        self._output = output
        self.ended = asyncio.create_task(self._wait())

    @classmethod
    async def start(cls, command: tuple[str, ...], output: OutputTail, variables: Mapping[str, str]) -> Child:
        """Start the command with more variables than our own; what it prints goes to the output."""
        environment = {**os.environ, **variables}
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT, env=environment)
        return cls(process, output)

    def send(self, number: signal.Signals) -> None:
        """Pass a signal on."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self) -> None:
        """Stop it, hard when it does not listen."""
        self.send(signal.SIGTERM)
        await asyncio.wait({self.ended}, timeout=STOP_SECONDS_MAX)
        if not self.ended.done():
            self.send(signal.SIGKILL)
            await asyncio.wait({self.ended})

    async def reap_orphans(self) -> None:
        """As process 1 of a container, bury what the engine's dead processes leave behind."""
        while True:
            await asyncio.sleep(REAP_EVERY_S)
            bury(except_pid=self._process.pid)

    async def _wait(self) -> int:
        if self._process.stdout is None:
            raise RuntimeError("the engine was started without a pipe")
        while chunk := await self._process.stdout.read(READ_BYTES):
            self._output.feed(chunk)
        return await self._process.wait()


def bury(*, except_pid: int) -> None:
    """Take the exit codes of dead children, all but one, which is waited for elsewhere."""
    with contextlib.suppress(OSError):
        for word in CHILDREN.read_text().split():
            if int(word) != except_pid:
                os.waitpid(int(word), os.WNOHANG)
