"""A connection between two members: messages both ways, heartbeats between them, and the reason of its loss."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from types import TracebackType
from typing import Self

from windlass.group.messages import BEAT, GroupMessage, decode, encode

BEATS_PER_SILENCE = 6
CLOSE_S_MAX = 2.0


class MemberConnection:
    """An asynchronous context manager; it sends heartbeats as long as it is entered."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, lost_after_s: float) -> None:
        """The other side counts as lost after this many seconds without a message or a heartbeat."""
        self._reader, self._writer = reader, writer
        self._lost_after_s = lost_after_s
        self._beats: asyncio.Task[None] | None = None
        self.lost = ""
        """Why the connection ended, once `receive` has returned None."""

    @property
    def peer(self) -> str:
        """The other side's address."""
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if name else "unknown"

    async def send(self, message: GroupMessage) -> None:
        """Send a message; `receive` reports a connection that is gone."""
        with contextlib.suppress(OSError):
            self._writer.write(encode(message))
            async with asyncio.timeout(self._lost_after_s):  # Python 3.11's wait_for can swallow a cancellation
                await self._writer.drain()

    async def receive(self) -> GroupMessage | None:
        """The next message but heartbeats; None when the connection ended, fell silent, or brings something else."""
        while True:
            try:
                async with asyncio.timeout(self._lost_after_s):
                    line = await self._reader.readline()
            except TimeoutError:
                self.lost = f"was silent for {self._lost_after_s:g} s"
                return None
            except (OSError, ValueError):  # ValueError: the line has no end
                line = b""
            message = decode(line) if line else None
            if message is None:
                self.lost = "closed its connection without a word"
                return None
            if message.kind != BEAT:
                return message

    def close(self) -> None:
        """End the connection; the task that receives from it ends, too."""
        self._writer.close()

    async def __aenter__(self) -> Self:
        self._beats = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beats:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await asyncio.wait_for(self._writer.wait_closed(), CLOSE_S_MAX)

    async def _beat(self) -> None:
        while True:
            await self.send(GroupMessage(BEAT))
            await asyncio.sleep(self._lost_after_s / BEATS_PER_SILENCE)
