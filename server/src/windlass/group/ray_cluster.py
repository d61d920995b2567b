"""The head's part of a Ray cluster: started before the followers are let in, counted, and watched. A head.Cluster."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping

from windlass import log
from windlass.child.output import OutputTail, cause
from windlass.child.process import Child
from windlass.errors import RayError
from windlass.group import arguments
from windlass.group.plan import GroupPlan

START_S_MAX = 120.0
POLL_S = 0.5
COUNTER = "windlass.group.ray_nodes"
HEAD = 0


class RayCluster:
    """Ray on this machine, and the others as they join it."""

    def __init__(self, plan: GroupPlan, cards: int, variables: Mapping[str, str], python: str = sys.executable) -> None:
        """`cards` are this machine's; the engine's `variables` reach its workers, which Ray starts."""
        self._plan, self._variables, self._python = plan, variables, python
        self._command = arguments.ray_command(plan, python, cards)
        self._output = OutputTail(log.engine_output())
        self._child: Child | None = None
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Start it and wait until its port answers."""
        child = self._child = await Child.start(self._command, self._output, self._variables)
        self._started.set()
        until = time.monotonic() + START_S_MAX
        while not child.ended.done() and not await self._answers():
            if time.monotonic() > until:
                address = arguments.ray_address(self._plan)
                raise RayError(f"Ray does not answer at {address} after {START_S_MAX:g} s; see its log", (HEAD,))
            await asyncio.sleep(POLL_S)
        if child.ended.done():
            raise self._ended(child.ended.result())
        await self._count(1, START_S_MAX)  # its port answers before it is a member itself

    async def formed(self) -> None:
        """Wait until Ray itself counts all members."""
        await self._count(self._plan.size, self._plan.timeout_s or 0.0)

    async def _count(self, members: int, limit_s: float) -> None:
        words = (arguments.ray_address(self._plan), str(members), f"{limit_s:g}")
        output = OutputTail(log.engine_output())
        counter = await Child.start((self._python, "-m", COUNTER, *words), output, self._variables)
        try:
            await asyncio.wait({counter.ended})
        finally:
            if not counter.ended.done():
                await counter.stop()
        if counter.ended.result():
            why = cause(output.lines) or next(reversed(output.lines), "see the log")
            raise RayError(f"the Ray cluster did not reach {members} members in {limit_s:g} s: {why}", (HEAD,))

    async def watch(self) -> None:
        """RayError when it ends."""
        await self._started.wait()
        if self._child:
            await asyncio.wait({self._child.ended})
            raise self._ended(self._child.ended.result())

    async def stop(self) -> None:
        """End it."""
        if self._child and not self._child.ended.done():
            await self._child.stop()

    async def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(self._plan.head, self._plan.ray_port)
            writer.close()
            return True
        return False

    def _ended(self, code: int) -> RayError:
        why = cause(self._output.lines) or next(reversed(self._output.lines), "see its log")
        return RayError(f"Ray ended on the head with exit code {code}: {why}", (HEAD,))
