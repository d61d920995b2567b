"""How long the engine's speculator takes for a step: on the device, and on the host where the device waits for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

UNDER_WAY_MAX = 4
"""Steps that are timed at a time: the device is that far behind at most, or a step goes untimed."""


@dataclass(slots=True)
class Timed:
    """One step's work, queued on the device between two events."""

    rows: int
    drafts: int
    begin: Any
    end: Any
    host_ms: float = 0.0
    is_awaited: bool = False
    """The device had come to the work before the host had queued all of it: it waits for the host."""

    @property
    def ms(self) -> float:
        """What a step is longer by it. Work that is queued behind a running step takes the device's time alone."""
        device_ms = float(self.begin.elapsed_time(self.end))
        return max(device_ms, self.host_ms) if self.is_awaited else device_ms


class DraftTimer:
    """Times work on the current stream, and never waits for it."""

    def __init__(self, event: Callable[[], Any]) -> None:
        """`event` makes what records a moment on the stream, as `torch.cuda.Event` with its timing enabled."""
        self._free = [(event(), event()) for _ in range(UNDER_WAY_MAX)]
        self._under_way: deque[Timed] = deque()

    @contextmanager
    def timing(self, rows: int, drafts: int) -> Iterator[None]:
        """Time what is queued meanwhile: so many drafts of each row."""
        if not self._free:
            yield
            return
        timed = Timed(rows, drafts, *self._free.pop())
        timed.begin.record()
        begun_s = time.perf_counter()
        try:
            yield
        except BaseException:
            self._free.append((timed.begin, timed.end))
            raise
        timed.end.record()
        timed.host_ms = 1000 * (time.perf_counter() - begun_s)
        timed.is_awaited = timed.begin.query()
        self._under_way.append(timed)

    def ended(self) -> Iterator[tuple[int, int, float]]:
        """Rows, drafts and milliseconds of what the device has done since the last call."""
        while self._under_way and self._under_way[0].end.query():
            timed = self._under_way.popleft()
            self._free.append((timed.begin, timed.end))
            yield timed.rows, timed.drafts, timed.ms
