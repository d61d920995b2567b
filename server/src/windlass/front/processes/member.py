"""An API process's side of what all API processes share: it asks the owner at a request's start, and tells it the end.

`SharedGate` and `SharedLimits` stand where one process has its own `Gate` and `Replicas`. A process whose owner is gone
ends at once, and with it the server: it would serve without places and limits.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from windlass.front.gate import Place, Receive
from windlass.front.limits.decide import Verdict
from windlass.front.limits.member import PendingRequest
from windlass.front.processes import numbers, wire
from windlass.front.processes.numbers import Numbers
from windlass.front.refusal import Refusal

log = logging.getLogger("windlass.processes.member")
UNSERVED = 1
"""The exit code of a process whose owner is gone."""


class Link(wire.Lines):
    """The connection to the owner."""

    def __init__(self, path: str, end: Callable[[int], object] = os._exit) -> None:
        """`end` ends this process."""
        super().__init__()
        self._path, self._end = path, end
        self._numbers = count()
        self._greeting: asyncio.Future[None] | None = None
        self._places: dict[int, SharedPlace] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self.counted: Callable[[], Numbers] = Counter
        """Our own numbers."""
        self.on_started: Callable[[], None] = _nothing
        self.on_elsewhere: Callable[[int], None] = _nothing_of
        self.stalled = ""
        """What is wrong, as any of the processes found."""
        self._does = {
            wire.HELLO: self._greeted, wire.RUN: self._run, wire.WAIT: self._wait, wire.REFUSE: self._refuse,
            wire.VERDICT: self._answer, wire.SUMS: self._answer, wire.COUNT: self._count,
            wire.STARTED: self._started, wire.ELSEWHERE: self._stepped,
            wire.STALLED: self._has_stalled,
        }  # fmt: skip

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Link | None:
        """None where this is the only API process."""
        path = environment.get(wire.VARIABLE)
        return cls(path) if path else None

    async def start(self) -> None:
        """Connect and be greeted; without an owner this process ends."""
        self._greeting = asyncio.get_running_loop().create_future()
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, self._path)
        except OSError as error:
            self.connection_lost(error)
        await self._greeting

    def stop(self) -> None:
        """The owner may go from now on."""
        self._end = _nothing_of
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the owner."""
        if self._end is not _nothing_of:
            log.error("windlass: the owner of the queue is gone (%s); this API process ends", exc or "end of file")
        self._end(UNSERVED)
        if self._greeting and not self._greeting.done():
            self._greeting.set_result(None)

    def enter(self, key: str, *, shared: bool) -> SharedPlace:
        """Ask for a place."""
        number = next(self._numbers)
        place = self._places[number] = SharedPlace(self, number)
        self.send(wire.ENTER, number, key, shared)
        return place

    def leave(self, number: int) -> None:
        """Give a place back."""
        if self._places.pop(number, None):
            self.send(wire.LEAVE, number)

    async def question(self, name: str, *words: Any) -> Any:  # noqa: ANN401 - what JSON takes and gives
        """The owner's answer."""
        number = next(self._numbers)
        answer = self._questions[number] = asyncio.get_running_loop().create_future()
        self.send(name, number, *words)
        try:
            return await answer
        finally:
            del self._questions[number]

    async def sums(self) -> Numbers:
        """The numbers of all processes."""
        return numbers.of(await self.question(wire.ASK))

    def _greeted(self, is_started: bool, stalled: str) -> None:
        self.stalled = stalled
        if is_started:
            self.on_started()
        if self._greeting:
            self._greeting.set_result(None)

    def _run(self, number: int) -> None:
        if place := self._places.get(number):
            place.decided(None)

    def _wait(self, number: int) -> None:
        if place := self._places.get(number):
            place.queued()

    def _refuse(self, number: int, status: int, message: str, headers: list[list[str]]) -> None:
        if place := self._places.pop(number, None):
            place.decided(Refusal(status, message, headers=tuple((name, value) for name, value in headers)))

    def _answer(self, number: int, answer: object) -> None:
        question = self._questions.get(number)
        if question and not question.done():
            question.set_result(answer)

    def _count(self) -> None:
        self.send(wire.COUNTED, numbers.rows(self.counted()))

    def _started(self) -> None:
        self.on_started()

    def _stepped(self, steps: int) -> None:
        self.on_elsewhere(steps)

    def _has_stalled(self, told: str) -> None:
        self.stalled = told


class SharedPlace(Place):
    """A place that the owner grants."""

    def __init__(self, link: Link, number: int) -> None:
        """Asked for."""
        super().__init__(lambda: link.leave(number))
        self._heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self, receive: Receive | None) -> bool:
        """As of any place; the client is listened to only once the owner lets it wait, since that costs two tasks."""
        await self._heard
        return await super().wait(receive)

    def queued(self) -> None:
        """The owner lets it wait."""
        if not self._heard.done():
            self._heard.set_result(None)

    def decided(self, refusal: Refusal | None) -> None:
        """It runs, or never will."""
        self.queued()
        if not self.turn.done():
            self.turn.set_result(refusal)


class SharedGate:
    """The owner's places."""

    def __init__(self, link: Link) -> None:
        """Asked through this connection."""
        self._link = link

    def enter(self, key: str, *, shared: bool = False) -> SharedPlace:
        """A place that runs or waits, or is refused while it is waited for."""
        return self._link.enter(key, shared=shared)

    def stop(self) -> None:
        """Refuse new and waiting requests, in all processes."""
        self._link.send(wire.STOP)


class SharedLimits:
    """The owner's limits of keys."""

    def __init__(self, link: Link) -> None:
        """Asked through this connection."""
        self._link = link

    async def start(self) -> None:
        """Nothing: the owner finds the other replicas."""

    async def stop(self) -> None:
        """Nothing."""

    async def enter(self, wish: PendingRequest) -> Verdict:
        """Whether a request may begin; who may must `end` it."""
        question = asyncio.ensure_future(self._link.question(wire.BEGIN, wish.key, wish.limits.row, wish.tokens))
        try:
            return Verdict.of(await asyncio.shield(question))
        except asyncio.CancelledError:
            question.add_done_callback(lambda answer: self._end_unused(wish, answer))
            raise

    def end(self, wish: PendingRequest, second: int, tokens: int) -> None:
        """A request that began has ended, and used so many tokens."""
        self._link.send(wire.END, wish.key, wish.limits.row, wish.tokens, second, tokens)

    def _end_unused(self, wish: PendingRequest, answer: asyncio.Future[Any]) -> None:
        """Of a request that was given up before the owner decided."""
        if not answer.cancelled() and (verdict := Verdict.of(answer.result())).may_begin:
            self.end(wish, verdict.second, 0)


def _nothing() -> None:
    return


def _nothing_of(_: int) -> None:
    return
