"""Learns that the process was told to stop, without taking the signal from the engine.

The engine's handlers are in place before the guard's first event, and they stay: each is called after ours.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_stop(told: Callable[[], None]) -> None:
    """Call `told` when the process is told to stop; only in the main thread, where signals arrive."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        before = signal.getsignal(number)
        if callable(before):  # a default action would be lost by a handler of ours
            signal.signal(number, _chain(told, before))


def _chain(
    told: Callable[[], None], before: Callable[[int, FrameType | None], object]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        told()
        before(number, frame)

    return handle
