"""When chunks are worth keeping in host memory: a load that never comes back stops paying for copies. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

REMEMBERED = 2
"""Keys are remembered for so many times the cache, whether their chunks are kept or not."""


class ReuseGate:
    """Closes after a whole cache of chunks was kept and none of them came back; opens at the first that comes back.

    While it is closed it still remembers the keys of chunks, which costs no copy. A key that is offered or looked for
    again shows that chunks come back, within a distance that the cache could have held.
    """

    def __init__(self, capacity: int) -> None:
        """`capacity`: chunks that host memory holds."""
        self._capacity = max(1, capacity)
        self._keys: OrderedDict[bytes, None] = OrderedDict()
        self._kept_since_reuse = 0

    @property
    def is_open(self) -> bool:
        """Whether chunks are kept now."""
        return self._kept_since_reuse <= self._capacity

    def came_back(self) -> None:
        """A chunk was loaded."""
        self._kept_since_reuse = 0

    def looked_for(self, key: bytes) -> None:
        """A chunk that host memory does not hold was asked for."""
        if key in self._keys:
            self.came_back()

    def admits(self, keys: Sequence[bytes]) -> bool:
        """Whether these chunks, just computed, are kept."""
        if any(key in self._keys for key in keys):
            self.came_back()
        self._remember(keys)
        if not self.is_open:
            return False
        self._kept_since_reuse += len(keys)
        return True

    def forget(self) -> None:
        """The cache was emptied."""
        self._keys.clear()
        self._kept_since_reuse = 0

    def _remember(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._keys[key] = None
            self._keys.move_to_end(key)
        while len(self._keys) > REMEMBERED * self._capacity:
            self._keys.popitem(last=False)
