"""The processes that plan: a time limit for every plan, and one namespace never keeps the others waiting.

A namespace has one plan under way at a time and there are two processes, so a namespace whose plans never end takes one
of them, and everybody else has the other. The event loop only waits. ADR 33 has the figures.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

import msgspec
from windlass_api.plan.model import NodeGpus, Plan, Refusal

from windlass_operator.errors import UserError
from windlass_operator.planner.process import LENGTH_BYTES, Answer, Question, framed

Process = asyncio.subprocess.Process
COMMAND = (sys.executable, "-m", "windlass_operator.planner.process")
PROCESSES = 2
PLAN_S = 10.0  # a plan for 1,000 nodes takes under 0.5 s; a busy node may take its processor away for a while
START_S = 120.0  # of the process: its imports take a second of processor time
AGAIN_S = 600.0  # a question that took too long is not asked again before
REMEMBERED_MAX = 1000


@dataclass(eq=False)
class Worker:
    """One process, and the nodes that it was sent last: they are a few bytes each, of a thousand nodes."""

    process: Process
    nodes: tuple[NodeGpus, ...] | None = None

    async def ask(self, question: Question) -> Answer:
        """The answer; the nodes go along where they are others than before."""
        nodes = question.inventory.nodes if question.inventory else None
        same = nodes is not None and nodes is self.nodes
        sent = replace(question, inventory=None) if same else question
        self.nodes = None
        found = await _exchange(self.process, framed(sent))
        self.nodes = nodes
        return found


@dataclass
class Planners:
    """Up to PROCESSES processes, started when they are first needed."""

    command: Sequence[str] = COMMAND
    plan_s: float = PLAN_S
    _idle: list[Worker] = field(default_factory=list)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PROCESSES))
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _overdue: dict[bytes, float] = field(default_factory=dict)

    async def decide(self, namespace: str, question: Question) -> Plan | Refusal:
        """The plan, or why there is none; UserError when planning took too long or failed."""
        mark = hashlib.sha256(msgspec.json.encode((question.spec, question.facts), order="sorted")).digest()
        turn = self._turns.setdefault(namespace, asyncio.Lock())
        async with turn:
            if self._overdue.get(mark, 0.0) > time.monotonic():
                raise UserError("PlanOverdue", f"planning took longer than {self.plan_s:g} s a while ago")
            async with self._places:
                found = await self._asked(question, mark)
        decided = found.plan or found.refusal
        if decided is None:
            raise UserError("InternalError", f"planning failed with {found.error}")
        return decided

    async def _asked(self, question: Question, mark: bytes) -> Answer:
        try:
            async with self._worker() as worker, asyncio.timeout(self.plan_s):
                return await worker.ask(question)
        except TimeoutError:
            self._remember(mark)
            raise UserError("PlanOverdue", f"planning takes longer than {self.plan_s:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self._remember(mark)
            raise UserError("PlanOverdue", "planning ended without an answer; it may need too much memory") from error

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[Worker]:
        """A process that answers; ended when it did not."""
        worker = self._idle.pop() if self._idle else await self._start()
        try:
            yield worker
        except BaseException:
            await asyncio.shield(_end(worker.process))
            raise
        self._idle.append(worker)

    async def _start(self) -> Worker:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe)
        try:
            async with asyncio.timeout(START_S):
                await _exchange(process, b"")
        except BaseException:
            await asyncio.shield(_end(process))
            raise
        return Worker(process)

    def _remember(self, mark: bytes) -> None:
        if len(self._overdue) >= REMEMBERED_MAX:
            self._overdue.pop(next(iter(self._overdue)))
        self._overdue[mark] = time.monotonic() + AGAIN_S

    async def aclose(self) -> None:
        """End the processes."""
        while self._idle:
            await _end(self._idle.pop().process)


async def _exchange(process: Process, message: bytes) -> Answer:
    if process.stdin is None or process.stdout is None:
        raise ConnectionError("the planner has no pipes")
    process.stdin.write(message)
    await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
    return msgspec.json.decode(await process.stdout.readexactly(length), type=Answer)


async def _end(process: Process) -> None:
    """Kill it: a process that plans holds nothing that it should put away."""
    if process.returncode is None:
        process.kill()
    await process.wait()
