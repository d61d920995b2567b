"""The owner of what API processes share: places and queue, limits of keys, the start, the verdict on the engine.

It lives in the process that starts the engine, which has nothing else to do while requests are served. An API process
asks it at the start and at the end of a request, never for a token. A process that goes gives all back.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from windlass.errors import UsageError
from windlass.front.gate import Gate, Place
from windlass.front.key_document import Limits
from windlass.front.keys import KeyFile, KeyRing
from windlass.front.limits.member import PendingRequest
from windlass.front.limits.replicas import Replicas
from windlass.front.limits.settings import PORT_VARIABLE, replicas
from windlass.front.processes import numbers, wire
from windlass.front.processes.numbers import Numbers
from windlass.front.refusal import Refusal
from windlass.front.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings

log = logging.getLogger("windlass.processes.owner")
COUNT_TIMEOUT_S = 1.0
"""Seconds for all processes to tell their numbers; of a slower one the numbers before count."""
SILENT_S = 60.0
"""A process whose event loop says nothing for so long hangs: it reports every 5 s."""
DRAIN_EVERY_S = 0.05
FLUSH_S = 0.2
"""Seconds between the last place's end and the engine's: the last bytes of an answer are on their way."""


class Owner:
    """What all processes share, and their connections."""

    def __init__(self, gate: Gate, limits: Replicas, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody is connected."""
        self.gate, self.limits, self.clock = gate, limits, clock
        self.is_started = False
        self.has_lost = False  # a process went while its requests ran
        self.stalled = ""
        self._connections: set[_Connection] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Owner:
        """As the guard's variables say."""
        settings = ApiSettings.from_json(environment.get(SETTINGS_VARIABLE, ""))
        file = KeyFile(settings.keys_file) if settings.keys_file else None
        keys = KeyRing(environment.get(KEYS_VARIABLE, ""), file)
        return cls(Gate(settings.concurrency, settings.queue), replicas(environment, keys))

    @property
    def path(self) -> str:
        """Of the socket."""
        return str(Path(self._folder.name, "owner")) if self._folder else ""

    async def __aenter__(self) -> Owner:
        """Listen, and hold limits together with the other replicas."""
        self._folder = tempfile.TemporaryDirectory(prefix="windlass-")  # its mode lets nobody else in
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Connection(self), self.path)
        try:
            await self.limits.start()
        except OSError as error:
            await self.__aexit__()
            raise UsageError(f"the port of the replicas cannot be opened: {error}; set {PORT_VARIABLE}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave."""
        if self._server:
            self._server.close()
        for connection in tuple(self._connections):
            connection.close()
        await self.limits.stop()
        if self._folder:
            self._folder.cleanup()

    async def drain(self, limit_s: float) -> bool:
        """Refuse new and waiting requests; wait until none runs any more, or the time is over. Whether none runs."""
        self.gate.stop()
        until = self.clock() + limit_s
        while self.gate.running and self.clock() < until:  # noqa: ASYNC110 - the gate has no event for it
            await asyncio.sleep(DRAIN_EVERY_S)
        await asyncio.sleep(FLUSH_S)
        return not self.gate.running and not self.has_lost

    def joined(self, connection: _Connection) -> None:
        """A process is there."""
        self._connections.add(connection)

    def left(self, connection: _Connection) -> None:
        """A process is gone."""
        self._connections.discard(connection)
        self.judge()

    def end_start(self) -> None:
        """The first chat is answered: all processes answer probes from now on."""
        self.is_started = True
        self._tell(wire.STARTED)

    def steps_elsewhere(self, but: _Connection) -> int:
        """Steps of the engine that other processes were told of: it reports each to one of them."""
        return sum(one.steps for one in self._connections if one is not but)

    def judge(self) -> None:
        """Tell all processes which engine or process hangs: a probe asks any of them."""
        now = self.clock()
        found = [one.stalled for one in self._connections if one.stalled]
        silent = sum(now - one.heard_at > SILENT_S for one in self._connections)
        if silent:
            found.append(f"{silent} of {len(self._connections)} API processes have said nothing for {SILENT_S:.0f} s")
        told = found[0] if found else ""
        if told != self.stalled:
            self.stalled = told
            self._tell(wire.STALLED, told)

    async def sums(self) -> Numbers:
        """The numbers of all processes and our own."""
        waiting = [asyncio.ensure_future(one.count()) for one in self._connections]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=COUNT_TIMEOUT_S)
            for one in late:
                one.cancel()
        return numbers.added([self._own(), *(one.numbers for one in self._connections)])

    def _own(self) -> Numbers:
        return numbers.added([numbers.of_gate(self.gate), numbers.of_replicas(self.limits)])

    def _tell(self, *message: Any) -> None:  # noqa: ANN401 - what JSON takes
        for one in self._connections:
            one.send(*message)


class _Connection(wire.Lines):
    """One API process, and what it holds."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._owner = owner
        self.steps, self.stalled, self.heard_at = 0, "", owner.clock()
        self.numbers: Numbers = Counter()
        self._places: dict[int, Place] = {}
        self._slots: Counter[tuple[PendingRequest, int]] = Counter()
        self._counts: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_lost = False
        self._does = {
            wire.ENTER: self._enter, wire.LEAVE: self._leave, wire.BEGIN: self._begin, wire.END: self._end,
            wire.ASK: self._ask, wire.COUNTED: self._counted, wire.STEPS: self._stepped,
            wire.STALLED: self._has_stalled,
            wire.STARTED: owner.end_start, wire.STOP: owner.gate.stop,
        }  # fmt: skip

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._owner.joined(self)
        self.send(wire.HELLO, self._owner.is_started, self._owner.stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back all that the process held; its requests end with it."""
        del exc
        self._is_lost = True
        self._owner.has_lost = self._owner.has_lost or bool(self._places)
        for place in self._places.values():
            place.leave()
        for (wish, second), number in self._slots.items():
            for _ in range(number):
                self._owner.limits.end(wish, second, wish.tokens)
        self._places.clear()
        self._slots.clear()
        self._owner.left(self)

    def heard(self, name: str, *words: Any) -> None:  # noqa: ANN401 - what JSON gives
        self.heard_at = self._owner.clock()
        super().heard(name, *words)

    async def count(self) -> None:
        """Return when the process has told its numbers."""
        told = asyncio.get_running_loop().create_future()
        self._counts.append(told)
        self.send(wire.COUNT)
        await told

    def _enter(self, number: int, key: str, shared: bool) -> None:
        try:
            place = self._owner.gate.enter(key, shared=shared)
        except Refusal as refusal:
            self._refuse(number, refusal)
            return
        self._places[number] = place
        if place.turn.done():
            self.send(wire.RUN, number)
        else:
            self.send(wire.WAIT, number)
            place.turn.add_done_callback(lambda turn: self._has_turn(number, turn.result()))

    def _has_turn(self, number: int, refusal: Refusal | None) -> None:
        if refusal:
            self._places.pop(number, None)
            self._refuse(number, refusal)
        else:
            self.send(wire.RUN, number)

    def _refuse(self, number: int, refusal: Refusal) -> None:
        self.send(wire.REFUSE, number, refusal.status, refusal.message, refusal.headers)

    def _leave(self, number: int) -> None:
        if place := self._places.pop(number, None):
            place.leave()

    def _begin(self, number: int, key: str, limits: list[int | None], tokens: int) -> None:
        self._spawn(self._decide(number, PendingRequest(key, Limits(*limits), tokens)))

    async def _decide(self, number: int, wish: PendingRequest) -> None:
        verdict = await self._owner.limits.enter(wish)
        if verdict.may_begin and self._is_lost:
            self._owner.limits.end(wish, verdict.second, 0)
            return
        if verdict.may_begin:
            self._slots[wish, verdict.second] += 1
        self.send(wire.VERDICT, number, asdict(verdict))

    def _end(self, key: str, limits: list[int | None], expected: int, second: int, tokens: int) -> None:
        wish = PendingRequest(key, Limits(*limits), expected)
        if self._slots[wish, second] > 0:
            self._slots[wish, second] -= 1
            self._slots += Counter()  # requests that ended leave no trace
            self._owner.limits.end(wish, second, tokens)

    def _ask(self, number: int) -> None:
        self._spawn(self._sum_up(number))

    async def _sum_up(self, number: int) -> None:
        self.send(wire.SUMS, number, numbers.rows(await self._owner.sums()))

    def _counted(self, rows: list[list[Any]]) -> None:
        self.numbers = numbers.of(rows)
        for told in self._counts:
            if not told.done():
                told.set_result(None)
        self._counts.clear()

    def _stepped(self, steps: int) -> None:
        self.steps = steps
        self.send(wire.ELSEWHERE, self._owner.steps_elsewhere(self))
        self._owner.judge()

    def _has_stalled(self, told: str) -> None:
        self.stalled = told
        self._owner.judge()

    def _spawn(self, work: Any) -> None:  # noqa: ANN401 - a coroutine of ours
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        """End the connection where a question got no answer: its request would wait for ever."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("windlass: a question of an API process cannot be answered", exc_info=error)
            self.close()
