"""A lease for a program that is no server: kept by a small process beside it, so that no thread of ours runs in it.

`Lease.take` waits until the license is granted. The process beside renews it, and gives it back when its standard
input ends: at `close`, at the program's end, and also when the program is killed. `python -m windlass.license.hold`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping
from socket import gethostname
from typing import NoReturn, Self

from windlass.errors import LicenseError, UsageError, WindlassError
from windlass.license import gpus, settings
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseKeeper, keeper, spoken
from windlass.license.model import holder

GRANTED = b"granted\n"


class Lease:
    """The license of this program's GPUs; a context manager."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Made by `take`."""
        self._process = process
        self._last_words = "the process that keeps the license has ended; start the program again"
        self._end = weakref.finalize(self, _end, process)

    @classmethod
    def take(cls, environment: Mapping[str, str]) -> Self | None:
        """Wait for the license; None where none is needed. LicenseError when it was refused for too long."""
        if not settings.read(environment).required or not gpus.visible(environment):
            return None
        command = [sys.executable, "-m", "windlass.license.hold"]
        pipe = subprocess.PIPE
        lease = cls(subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**environment, "PYTHONUNBUFFERED": "1"}))
        if (said := lease._next_line()) != GRANTED:
            lease._fail(said)
        return lease

    def check(self) -> None:
        """LicenseError when the license was lost for longer than it allows."""
        if self._process.poll() is not None:
            self._fail(self._next_line())

    def close(self) -> None:
        """Give the GPUs back; done also when nobody refers to the lease any more."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_line(self) -> bytes:
        pipe = self._process.stdout
        return pipe.readline() if pipe and not pipe.closed else b""

    def _fail(self, said: bytes) -> NoReturn:
        self._last_words = said.decode().strip() or self._last_words
        self._process.wait()  # it ends by itself, and its exit code tells the kind of error
        self.close()
        wrong = UsageError if self._process.returncode == UsageError.exit_code else LicenseError
        raise wrong(self._last_words)


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    process.terminate()  # processes that the engine forked may hold the other end of its standard input
    process.wait()


async def _hold(environment: Mapping[str, str]) -> None:
    """Obtain, say so, renew until standard input ends."""
    said = settings.read(environment)
    uuids = tuple(gpu.uuid for gpu in gpus.visible(environment))
    # Several programs of one machine are several holders.
    who = holder({"WINDLASS_POD_UID": f"{gethostname()}-{os.getppid()}", **environment}, gethostname())
    report = spoken(lambda _: None, lambda line: print(f"windlass: {line}", file=sys.stderr, flush=True))
    async with LeaseClient.of(said) as client:
        kept = keeper(said, client, uuids, who, report)
        if kept is None:
            return
        ended = asyncio.create_task(_end_of_input())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.cancel)
        work = asyncio.create_task(_obtain_and_keep(kept))
        try:
            await asyncio.wait({ended, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            ended.cancel()
            work.cancel()
            await asyncio.gather(ended, work, return_exceptions=True)
            await kept.release()


async def _obtain_and_keep(kept: LicenseKeeper) -> None:
    await kept.obtain()
    sys.stdout.buffer.write(GRANTED)
    sys.stdout.buffer.flush()
    await kept.keep()


async def _end_of_input() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def main() -> int:
    """Hold the lease of the program that started this one; its exit code is the error's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program; its end ends us
    try:
        asyncio.run(_hold(os.environ))
    except WindlassError as error:
        print(error, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
