"""The pod's one long-lived process: license first, then the engine as a child, until it ends or is told to.

`windlass run` builds the parts and awaits `Supervisor.run`. Nothing of the engine is started, and no GPU memory taken,
before the license is granted. Signals go on to the engine; its exit code is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from windlass.errors import EngineError, UsageError, WindlassError
from windlass.license.keeper import LicenseKeeper
from windlass.supervisor.board import FactsBoard
from windlass.supervisor.child import Child
from windlass.supervisor.output import OutputTail, cause, refused_flags

HEALTH_EVERY_S = 1.0
HEALTH_TIMEOUT_S = 2.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)
ENDED_BY_SIGNAL = 128
"""A shell's exit code for a process that a signal ended is this and the signal's number."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How the engine is started and where it answers."""

    command: tuple[str, ...]
    health_url: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """Added to our own environment; they may hold keys."""


class Supervisor:
    """License, engine, end."""

    def __init__(
        self,
        engine: Engine,
        board: FactsBoard,
        keeper: LicenseKeeper | None,
        on_serving: Callable[[], None] = lambda: None,
    ) -> None:
        """Without a keeper no license is asked for; `on_serving` is called once, when the engine has answered."""
        self._engine = engine
        self._on_serving = on_serving
        self._board = board
        self._keeper = keeper
        self._child: Child | None = None
        self._work: asyncio.Task[int] | None = None
        self._stopping = False
        self.output = OutputTail(sys.stdout.buffer, board.engine_said)

    async def run(self) -> int:
        """Work until the engine has ended; the exit code. WindlassError when it did not end well."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        self._work = asyncio.create_task(self._license_then_engine())
        try:
            return await self._work
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return 0  # told to stop before there was an engine
        except WindlassError:
            self._board.enter("failed")
            raise
        finally:
            if self._keeper:
                await self._keeper.release()
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self, number: signal.Signals) -> None:
        self._stopping = True
        if self._child is not None:
            self._child.send(number)
        elif self._work is not None:
            self._work.cancel()

    async def _license_then_engine(self) -> int:
        if self._keeper:
            await self._keeper.obtain()
        self._board.enter("engine")
        self._child = await Child.start(self._engine.command, self.output, self._engine.variables)
        keep = asyncio.create_task(self._keep_license())
        beside = [asyncio.create_task(work) for work in self._companions(self._child)]
        try:
            await asyncio.wait({self._child.ended, keep}, return_when=asyncio.FIRST_COMPLETED)
            if not self._child.ended.done():
                await self._child.stop()
                keep.result()  # raises why the license was lost
            return self._verdict(self._child.ended.result())
        finally:
            await _cancel(keep, *beside)

    async def _keep_license(self) -> None:
        if self._keeper:
            await self._keeper.keep()
        else:
            await asyncio.Event().wait()

    def _companions(self, child: Child) -> list[Coroutine[Any, Any, None]]:
        return [self._watch_health(), *([child.reap_orphans()] if os.getpid() == 1 else [])]

    def _verdict(self, code: int) -> int:
        if self._stopping:
            return code if code >= 0 else ENDED_BY_SIGNAL - code
        if code == 0:
            raise EngineError("the engine ended by itself without an error; see the last lines of its log", 1)
        if code < 0:
            hint = "; the container's memory is too small" if -code == signal.SIGKILL else ""
            raise EngineError(f"the engine was ended by {signal.Signals(-code).name}{hint}", ENDED_BY_SIGNAL - code)
        if refused := refused_flags(self.output.lines):
            raise UsageError(f"the engine refuses its flags: {refused}; `vllm serve --help=all` lists what it takes")
        why = cause(self.output.lines) or "see the last lines of its log"
        raise EngineError(f"the engine ended with exit code {code}: {why}", code)

    async def _watch_health(self) -> None:
        async with httpx.AsyncClient(timeout=HEALTH_TIMEOUT_S, trust_env=False) as http:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await http.get(self._engine.health_url)).is_success:
                        self._board.enter("serving")
                        self._on_serving()
                        return
                await asyncio.sleep(HEALTH_EVERY_S)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
