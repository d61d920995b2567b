"""Keeps what a process does on a signal across a foreign library's call.

A library may take a signal for the time of a call and put the old handler back without its flags. With SA_RESTART among
them, a wait of the main thread goes on after the signal, and Python's handler runs only when the wait has ended: an
idle engine that is told to end does not. `nvrtc` uses it; it stands alone and imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ACTION_BYTES = 256
"""Room for libc's `struct sigaction`, which has 152 bytes on Linux; it is put back as it was read."""


@contextmanager
def kept() -> Iterator[None]:
    """Put the action of each signal back, flags included, when the block ends. Threads share actions."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = {number: ctypes.create_string_buffer(_ACTION_BYTES) for number in signal.valid_signals()}
    known = [number for number, action in before.items() if libc.sigaction(int(number), None, action) == 0]
    try:
        yield
    finally:
        for number in known:
            libc.sigaction(int(number), before[number], None)  # refused for SIGKILL and SIGSTOP, which nobody changes
