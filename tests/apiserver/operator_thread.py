"""The whole operator in a thread of the test's own process, with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from windlass_operator.runtime.run import operate
from windlass_operator.settings import Settings

STOP_S = 40.0


@contextmanager
def operating(settings: Settings) -> Iterator[None]:
    """Run it; the block begins when it has all its lists, and ends with it."""
    ready, stop = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(asyncio.run, operate(settings, ready, stop))
        try:
            while not ready.wait(0.1):  # clock: how often it looks for a failed start
                assert not end.done(), end.exception()
            yield
        finally:
            stop.set()
            end.result(STOP_S)
