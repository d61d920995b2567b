"""Waiting for an event in a test. Its bound ends a hang; it says nothing about speed.

Every suite waits with these functions, so that no test has a deadline of its own that a slow machine misses.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

# Seconds. Far beyond what any event takes on two busy cores, and below pytest's own limit, which names no event.
HANG_S = 120.0
LOOK_S = 0.01
T = TypeVar("T")


def wait_until(
    holds: Callable[[], T], event: str = "the awaited event", hang_s: float = HANG_S, look_s: float = LOOK_S
) -> T:
    """Call `holds` until it returns something true, and return that; raise after `hang_s`, naming the event."""
    end = time.monotonic() + hang_s
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"{event} did not happen within {hang_s:.0f} s")
        time.sleep(look_s)
    return found


async def wait_until_async(holds: Callable[[], T], event: str = "the awaited event", hang_s: float = HANG_S) -> T:
    """Do the same and let the event loop run meanwhile."""
    end = time.monotonic() + hang_s
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"{event} did not happen within {hang_s:.0f} s")
        await asyncio.sleep(LOOK_S)
    return found
