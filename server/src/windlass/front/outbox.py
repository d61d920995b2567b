"""What a client has not read yet. It waits here, so that a place at the engine is free as soon as the engine is done.

A client that has taken all before is written to at once, and costs a piece nothing but the question whether it has.

Without it a slow reader keeps its place until it has read its answer, and a few of them keep everybody else waiting.
What all clients together have not read is bounded, and so is each key's share of it: beyond its share a key's answers
wait for their readers. A reader that takes nothing for a while is gone: its connection ends, and so does its request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field

from windlass.front.asgi import Message, Send
from windlass.front.budget import Shares
from windlass.front.connections import UNKNOWN, Connection

UNREAD_BYTES_MAX = 64 * 1024**2
WRITE_TIMEOUT_S = 30.0
"""Seconds for one write; the server's own buffer takes the next once the client has read 48 KiB."""


@dataclass(slots=True)
class Stock:
    """What all the answers of this server hold."""

    shares: Shares = field(default_factory=lambda: Shares(UNREAD_BYTES_MAX))
    ended: int = 0
    """Clients that took nothing for WRITE_TIMEOUT_S."""

    @property
    def unread_bytes(self) -> int:
        """Bytes that wait for their readers."""
        return self.shares.held_bytes


@dataclass(frozen=True, slots=True)
class Reader:
    """Whose share an answer counts against, and how its connection is ended."""

    key: str = ""
    shared: bool = False
    """Whether other keys may come."""
    connection: Connection = UNKNOWN
    timeout_s: float = WRITE_TIMEOUT_S


class Outbox:
    """The way to one client; a task of its own writes what comes in pieces."""

    def __init__(self, send: Send, stock: Stock, reader: Reader | None = None) -> None:
        """Nothing waits yet."""
        self._send, self._stock = send, stock
        self.reader = reader or Reader()
        self.flow = self.reader.connection.flow
        self.waiting: deque[Message] = deque()
        self.write = self.reader.connection.write or send
        """For a piece, once the head has gone: the middleware outside of the guard looks at heads alone."""
        self._changed = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False
        self._gone = False

    def __call__(self, message: Message) -> Awaitable[None]:
        """Take a message; returns before the client has it, unless too much waits. Raises what the writing raised."""
        if not self.waiting and not self.flow.write_paused:
            return self._send(message)  # which waits for nothing then, so there is nothing to time or to count
        return self._later(message)

    async def _later(self, message: Message) -> None:
        if self._writer is None:
            if not message.get("more_body", False):
                await self._put(message)  # a head, or a body in one piece: it waits for nothing but an earlier answer
                return
            self._writer = asyncio.create_task(self._write())
        size = len(message.get("body", b""))
        while self.waiting and not self._fits(size) and not self._writer.done():
            await self._change()
        if self._writer.done():
            self._writer.result()
            return
        self._stock.shares.take(self.reader.key, size)
        self.waiting.append(message)
        self._changed.set()
        await asyncio.sleep(0)  # the writer's turn: a client that reads has each piece before the next is made

    async def close(self) -> None:
        """Wait until the client has read all, or has gone."""
        self._closed = True
        self._changed.set()
        if self._writer is None:
            return
        try:
            await self._writer
        finally:
            self._writer.cancel()
            self._stock.shares.give(self.reader.key, sum(len(one.get("body", b"")) for one in self.waiting))
            self.waiting.clear()

    def _fits(self, size: int) -> bool:
        return self._stock.shares.fits(self.reader.key, size, shared=self.reader.shared)

    async def _write(self) -> None:
        try:
            while not self._gone and (self.waiting or not self._closed):
                if self.waiting:
                    await self._put(self.waiting[0])
                    self._stock.shares.give(self.reader.key, len(self.waiting.popleft().get("body", b"")))
                    self._changed.set()
                else:
                    await self._change()
        finally:
            self._changed.set()

    async def _put(self, message: Message) -> None:
        if self._gone:
            return
        try:
            async with asyncio.timeout(self.reader.timeout_s):
                await self._send(message)
        except TimeoutError:  # the server tells the engine of the lost connection, as of any other
            self._gone = True
            self._stock.ended += 1
            self.reader.connection.abort()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
