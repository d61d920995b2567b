"""Time and memory that a piece of work in this process may take; past them it raises, so that it ends with words.

The inspect Job reads files that anybody may have written, and the planner works on what was read. Both end by
themselves, before the kubelet ends them without a word.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OverdueError(Exception):
    """The time is over."""


@contextmanager
def limited(seconds: float, memory_bytes: int) -> Iterator[None]:
    """OverdueError after so long, MemoryError above so much private memory; in the main thread only."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise OverdueError(f"not done within {seconds:g} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    handler = signal.signal(signal.SIGALRM, over)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
