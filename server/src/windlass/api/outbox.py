"""What a client has not read yet. It waits here, so that a place at the engine is free as soon as the engine is done.

Without it a slow reader keeps its place until it has read its answer, and a few of them keep everybody else waiting.
What all clients together have not read is bounded: beyond the bound the engine's answers wait as they would without.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from windlass.api.asgi import Message, Send

UNREAD_BYTES_MAX = 64 * 1024**2


@dataclass(slots=True)
class Stock:
    """What all the answers of this server hold."""

    limit_bytes: int = UNREAD_BYTES_MAX
    unread_bytes: int = 0


class Outbox:
    """The way to one client; a task of its own writes what comes in pieces."""

    def __init__(self, send: Send, stock: Stock) -> None:
        """Nothing waits yet."""
        self._send, self._stock = send, stock
        self._waiting: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, message: Message) -> None:
        """Take a message; returns before the client has it, unless too much waits. Raises what the writing raised."""
        if self._writer is None:
            if not message.get("more_body", False):
                await self._send(message)  # a head, or a body in one piece: it never waits for the client
                return
            self._writer = asyncio.create_task(self._write())
        size = len(message.get("body", b""))
        while self._waiting and self._stock.unread_bytes + size > self._stock.limit_bytes and not self._writer.done():
            await self._change()
        if self._writer.done():
            self._writer.result()
            return
        self._stock.unread_bytes += size
        self._waiting.append(message)
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
            self._stock.unread_bytes -= sum(len(message.get("body", b"")) for message in self._waiting)
            self._waiting.clear()

    async def _write(self) -> None:
        try:
            while self._waiting or not self._closed:
                if self._waiting:
                    await self._send(self._waiting[0])
                    self._stock.unread_bytes -= len(self._waiting.popleft().get("body", b""))
                    self._changed.set()
                else:
                    await self._change()
        finally:
            self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
