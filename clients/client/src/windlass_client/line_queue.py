"""Log lines between their readers and whoever takes them more slowly, bounded by the memory that they hold.

Counting lines bounds nothing: one line may be a mebibyte.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque

from windlass_client.values import LogLine

LINE_BYTES = 400  # of a line beside its text: the object, names and time
HELD_MAX = 4 << 20  # bytes
BATCH_MAX = 256 << 10  # bytes


class LineQueue:
    """Any number of readers `put`, one task takes; `end` is said once and never waits."""

    def __init__(self, held_max: int = HELD_MAX) -> None:
        self._held_max, self._held = held_max, 0
        self._lines: deque[tuple[LogLine, int]] = deque()
        self._ended = False
        self._room, self._news = asyncio.Event(), asyncio.Event()

    @property
    def held(self) -> int:
        """Bytes of the lines that wait."""
        return self._held

    async def put(self, line: LogLine) -> None:
        """Wait for room, then add the line; one line goes over the bound at most."""
        while self._held >= self._held_max:
            self._room.clear()
            await self._room.wait()
        size = sys.getsizeof(line.text) + LINE_BYTES
        self._lines.append((line, size))
        self._held += size
        self._news.set()

    async def take(self, most: int = BATCH_MAX) -> list[LogLine]:
        """The lines that are there, one at least and no more bytes than `most` beside it; none after the last."""
        while not self._lines and not self._ended:
            self._news.clear()
            await self._news.wait()
        taken: list[LogLine] = []
        room = most
        while self._lines and (not taken or self._lines[0][1] <= room):
            line, size = self._lines.popleft()
            taken.append(line)
            self._held -= size
            room -= size
        self._room.set()
        return taken

    def end(self) -> None:
        """No line comes any more."""
        self._ended = True
        self._news.set()
