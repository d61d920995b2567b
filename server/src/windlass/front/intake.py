"""Reading a request's body: its size checked before, its bytes held against the key's share, its sender timed.

A small body is read at once. A larger one stays in the client's socket until its request has a place (`is_small` tells
which), so that requests that wait hold next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

from windlass.front.asgi import Message, Receive, Scope, header
from windlass.front.budget import Budget
from windlass.front.refusal import Refusal

SMALL_BYTES = 64 * 1024
"""uvicorn holds as much of a body that nobody reads."""
BODY_TIMEOUT_S = 30.0
SLOWEST_BYTES_S = 64 * 1024
"""Bytes a second: what a body that is not in after BODY_TIMEOUT_S must have arrived with."""
ROOM_TIMEOUT_S = 30.0
"""Seconds that a body waits for room among the other bodies."""
LONGEST_LENGTH = 10
"""Digits of a length that is believed."""
CLOSE = (("connection", "close"),)  # the rest of the body is not read, so the connection cannot be used again


class Gone(Exception):  # noqa: N818 — not an error: nobody is left to answer
    """The client left before its request was whole."""


class Hold:
    """What one request holds of the budget; released at once, however often `release` is called."""

    def __init__(self, budget: Budget, key: str, *, shared: bool) -> None:
        """Nothing is held."""
        self._budget, self._key, self._shared = budget, key, shared
        self._bytes = 0

    async def more(self, size: int) -> None:
        """Hold so many more bytes; refuses when there is no room for a while."""
        if not self._budget.take_now(self._key, size, shared=self._shared):  # a timer costs more than the question
            try:
                async with asyncio.timeout(ROOM_TIMEOUT_S):
                    await self._budget.take(self._key, size, shared=self._shared)
            except TimeoutError:
                message = "this server holds as many bytes of requests as it may; ask again later, or send less"
                raise Refusal(429, message, headers=(("retry-after", "5"), *CLOSE)) from None
        self._bytes += size

    def release(self) -> None:
        """Hold nothing."""
        if self._bytes:
            self._budget.give(self._key, self._bytes)
            self._bytes = 0


class Begun:
    """An awaitable after its first step: it has its result already, or waits for something and may be awaited."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        """Take the step; raises what it raises."""
        self._steps = awaitable.__await__()
        self.is_waiting = True
        self.result: Any = None
        try:
            self._waits_for = next(self._steps)
        except StopIteration as done:
            self.is_waiting, self.result = False, done.value

    def __await__(self) -> Generator[Any, Any, None]:
        """Go on from there, in the same task."""
        waits_for = self._waits_for
        try:
            while True:
                try:
                    value = yield waits_for
                except BaseException as error:  # a cancellation, which the awaitable must see
                    waits_for = self._steps.throw(error)
                else:
                    waits_for = self._steps.send(value)
        except StopIteration as done:
            self.is_waiting, self.result = False, done.value


class Intake:
    """One body on its way in."""

    def __init__(self, scope: Scope, receive: Receive, limit_bytes: int, hold: Hold) -> None:
        """Refuse what is announced to be too large."""
        self._receive, self._limit, self._hold = receive, limit_bytes, hold
        self._announced = _announced(scope, limit_bytes)
        self._clock = asyncio.get_running_loop().time

    @property
    def is_small(self) -> bool:
        """Whether it is known to be small."""
        return self._announced is not None and self._announced <= SMALL_BYTES

    def release(self) -> None:
        """Hold no bytes of the body any more."""
        self._hold.release()

    async def read(self) -> bytes:
        """The whole body; raises `Gone`, or a refusal when it is too large or too slow."""
        if self._announced:
            await self._hold.more(self._announced)
        body = bytearray()
        began, more = self._clock(), True
        while more:
            message = await self._next(began + BODY_TIMEOUT_S + len(body) / SLOWEST_BYTES_S)
            piece, more = message.get("body", b""), message.get("more_body", False)
            if len(body) + len(piece) > self._limit:
                raise too_large(self._limit)
            if self._announced is None:
                await self._hold.more(len(piece))
            body += piece
        return bytes(body)

    async def _next(self, deadline: float) -> Message:
        begun = Begun(self._receive())
        try:
            if begun.is_waiting:  # a small body is there with its head: it needs no timer
                async with asyncio.timeout(deadline - self._clock()):
                    await begun
            message: Message = begun.result
        except TimeoutError:
            raise Refusal(408, "the body did not arrive in time; send it faster, or in parts", headers=CLOSE) from None
        if message["type"] == "http.disconnect":
            raise Gone
        return message


def too_large(limit: int) -> Refusal:
    """The refusal of a body over the limit."""
    message = f"the body is larger than {limit / 1024**2:g} MiB, the limit of this server; send less"
    return Refusal(413, message, headers=CLOSE)


def announced_bytes(scope: Scope) -> int | None:
    """The announced length as far as it can be believed; None for a body in pieces."""
    if header(scope["headers"], b"transfer-encoding"):
        return None
    said = header(scope["headers"], b"content-length")
    return int(said) if said.isdigit() and len(said) <= LONGEST_LENGTH else 0


def _announced(scope: Scope, limit: int) -> int | None:
    """The announced length; None for a body in pieces, 0 for none. The number's length is checked before its value."""
    said = header(scope["headers"], b"content-length")
    if header(scope["headers"], b"transfer-encoding"):
        return None
    if not said.isdigit():
        return None if said else 0
    if len(said) > len(str(limit)) + 1 or int(said) > limit:
        raise too_large(limit)
    return int(said)
