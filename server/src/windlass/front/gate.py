"""Waiting for a place at the engine: the asynchronous shell around `queue`. One event loop, so no locks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from itertools import count
from typing import Any, TypeVar

from windlass.front.intake import Intake
from windlass.front.queue import FairQueue, Ticket, Verdict
from windlass.front.refusal import Refusal

LONGEST_RETRY_S = 60
STOPPING_RETRY_S = 5
RESERVE = 16
"""One place of so many, at least one, is kept from the key that holds all others."""
MEMORY = 0.9
"""How much the mean duration keeps of its past with each request."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Read = TypeVar("Read")
"""A body as it was read."""


def retry_after_s(waiting: int, limit: int, mean_s: float) -> int:
    """When a place may be free: the time that those who wait will take."""
    return max(1, min(LONGEST_RETRY_S, math.ceil((waiting + 1) * mean_s / limit)))


def key_limit(limit: int, *, shared: bool) -> int:
    """Places that one key may run; all of them unless other keys may come."""
    return limit - max(1, limit // RESERVE) if shared and limit > 1 else limit


class Place:
    """One request's place; left once, however often `leave` is called."""

    def __init__(self, leave: Callable[[], None], asked_at: float = 0.0) -> None:
        """Not yet granted; `leave` gives it back."""
        self._leave, self.asked_at = leave, asked_at
        self.turn: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        self.granted_at = 0.0

    async def wait(self, receive: Receive | None) -> bool:
        """Wait for the turn; False when the client went away before. Raises the refusal when there will be none.

        Without `receive`, as while a body is still unread, nobody hears that the client goes away.
        """
        if receive is None:
            await self.turn
        elif not self.turn.done() and not await _comes(self.turn, receive):
            return False
        if refusal := self.turn.result():
            raise refusal
        return True

    def leave(self) -> None:
        """Give the place to the next one."""
        self._leave()


class Gate:
    """All the places of this server."""

    def __init__(self, limit: int, queue: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin open and empty."""
        self._limit, self._queue, self._clock = limit, FairQueue(limit, queue), clock
        self._numbers = count()
        self._places: dict[Ticket, Place] = {}
        self._mean_s = 1.0
        self.granted = 0
        self.waited_s = 0.0
        self.is_stopping = False

    @property
    def running(self) -> int:
        """Requests that the engine works on."""
        return self._queue.running

    @property
    def waiting(self) -> int:
        """Requests that wait for a place."""
        return self._queue.waiting

    def enter(self, key: str, *, shared: bool = False) -> Place:
        """A place that runs or waits; refuses when there is neither. `shared` when other keys may come."""
        if self.is_stopping:
            raise _stopping()
        self._queue.key_limit = key_limit(self._limit, shared=shared)
        ticket = Ticket(next(self._numbers), key)
        answer = self._queue.ask(ticket)
        if answer.verdict is Verdict.FULL:
            raise self._full()
        if answer.displaced:
            self._places.pop(answer.displaced).turn.set_result(self._full())
        place = self._places[ticket] = Place(partial(self.leave, ticket), self._clock())
        if answer.verdict is Verdict.RUN:
            self._grant(place)
        return place

    def leave(self, ticket: Ticket) -> None:
        """Free a place, and let the next one run."""
        place = self._places.pop(ticket, None)
        if place and place.granted_at:
            self._mean_s = MEMORY * self._mean_s + (1 - MEMORY) * (self._clock() - place.granted_at)
        if following := self._queue.leave(ticket):
            self._grant(self._places[following])

    def stop(self) -> None:
        """Refuse whoever waits or comes; those who run go on."""
        self.is_stopping = True
        for ticket in self._queue.clear():
            self._places.pop(ticket).turn.set_result(_stopping())

    def _grant(self, place: Place) -> None:
        place.granted_at = self._clock()
        self.granted += 1
        self.waited_s += place.granted_at - place.asked_at
        place.turn.set_result(None)

    def _full(self) -> Refusal:
        seconds = str(retry_after_s(self.waiting, self._limit, self._mean_s))
        message = f"this server is full ({self.running} running, {self.waiting} waiting); ask again later"
        return Refusal(429, message, headers=(("retry-after", seconds),))


def _stopping() -> Refusal:
    headers = (("retry-after", str(STOPPING_RETRY_S)),)
    return Refusal(503, "this server is shutting down; ask again, another one answers", headers=headers)


async def in_turn(
    enter: Callable[[], Place] | None,
    intake: Intake,
    receive: Receive,
    read: Callable[[], Awaitable[Read]],
    answer: Callable[[Read, Callable[[], None]], Awaitable[None]],
) -> None:
    """Read a small body, wait for a place, read a large one, answer; `answer` may leave the place before its end.

    A body that waits for its place unread holds no memory; one that is read before lets its client be heard leaving.
    """
    found = [await read()] if intake.is_small else []
    place = enter() if enter else None
    try:
        if place and not await place.wait(receive if found else None):
            return
        await answer(found[0] if found else await read(), place.leave if place else _nothing)
    finally:
        if place:
            place.leave()


def _nothing() -> None:
    return


async def _comes(turn: asyncio.Future[Refusal | None], receive: Receive) -> bool:
    listener = asyncio.ensure_future(_disconnect(receive))
    both: set[asyncio.Future[Any]] = {turn, listener}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if listener.done():
            listener.result()  # a broken connection is told as it is
            return False
        return True
    finally:
        # Ended before anybody else listens: two listeners would take each other's messages.
        listener.cancel()
        await asyncio.wait({listener})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
