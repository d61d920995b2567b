"""Bytes that all requests hold together, and each key's share of them. `Shares` is pure; `Budget` waits around it.

The share is the dynamic threshold of shared buffers: a key may hold as much as is free beside it. One key alone reaches
half of it, two a third each; a newcomer always finds room, and no share must be set.
"""

from __future__ import annotations

import asyncio
from collections import Counter


class Shares:
    """An account of bytes by key."""

    def __init__(self, limit_bytes: int) -> None:
        """Nothing is held."""
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._by_key: Counter[str] = Counter()

    def held_by(self, key: str) -> int:
        """Bytes of one key."""
        return self._by_key.get(key, 0)

    def fits(self, key: str, size: int, *, shared: bool) -> bool:
        """Whether a key may hold so much more; `shared` when other keys may come."""
        free = self.limit_bytes - self.held_bytes - size
        return free >= (self.held_by(key) + size if shared else 0)

    def take(self, key: str, size: int) -> None:
        """Hold so much more."""
        self.held_bytes += size
        self._by_key[key] += size

    def give(self, key: str, size: int) -> None:
        """Hold so much less."""
        self.held_bytes -= size
        self._by_key[key] -= size
        if not self._by_key[key]:
            del self._by_key[key]


class Budget:
    """Shares whose taker waits until there is room."""

    def __init__(self, limit_bytes: int) -> None:
        """Nothing is held and nobody waits."""
        self.shares = Shares(limit_bytes)
        self._waiting: set[asyncio.Future[None]] = set()

    async def take(self, key: str, size: int, *, shared: bool) -> None:
        """Hold so much more as soon as it fits."""
        while not self.shares.fits(key, size, shared=shared):
            room = asyncio.get_running_loop().create_future()
            self._waiting.add(room)
            try:
                await room
            finally:
                self._waiting.discard(room)
        self.shares.take(key, size)

    def take_now(self, key: str, size: int, *, shared: bool) -> bool:
        """Hold so much more if it fits without waiting."""
        fits = self.shares.fits(key, size, shared=shared)
        if fits:
            self.shares.take(key, size)
        return fits

    def give(self, key: str, size: int) -> None:
        """Hold so much less; everybody who waits looks again."""
        self.shares.give(key, size)
        for room in self._waiting:
            if not room.done():
                room.set_result(None)
