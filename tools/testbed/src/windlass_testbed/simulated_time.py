"""Time of tests that does not depend on how fast a machine is: the event loop's clock, simulated or moved ahead.

The product reads the clock of its event loop, `asyncio.get_running_loop().time()`, and sleeps on it.

- `SimulatedLoop` is for tests whose parts all run in one event loop. Its clock stands still while a task can run, and
  jumps to the next timer when none can. A test marked `simulated_time` gets it from the repository's `conftest.py`.
- `ClockAhead` is for tests with real processes. The clock runs as ever, and the test moves it ahead past a limit that
  is far too long to pass by itself.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar

from windlass_testbed.waiting import HANG_S

T = TypeVar("T")
START_S = 1000.0
"""Not 0, which code may take for "never"."""
ARRIVAL_S = 0.005
"""Real seconds without a sign of life before the clock jumps: the loop's own bytes on loopback are there at once."""
STEP_S = 1e-6
"""The clock's smallest step. A float of many seconds loses a smaller one, and a timer would never be due."""


class _Jumping(selectors.DefaultSelector):
    """Waits for sockets; the loop's clock takes the time that a wait for a timer would have taken."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not timeout or timeout < 0:
            return super().select(timeout)
        if self._loop.works_elsewhere:
            if events := super().select(HANG_S):
                return events
            raise TimeoutError(f"no thread has returned in {HANG_S:.0f} s")
        events = super().select(min(timeout, ARRIVAL_S))
        if not events:
            self._loop.advance(max(timeout, STEP_S))
        return events


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own; work in threads takes no time on it."""

    def __init__(self) -> None:
        """Begin at START_S."""
        self._now_s = START_S
        self.works_elsewhere = 0
        """Calls that run in a thread now."""
        super().__init__(_Jumping(self))
        self._clock_resolution = STEP_S

    def time(self) -> float:
        """Simulated seconds."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass in which no task runs."""
        self._now_s += seconds

    def run_in_executor(  # type: ignore[override]  # arguments and results are the called function's
        self,
        executor: Executor | None,
        func: Callable[..., Any],
        *args: Any,  # noqa: ANN401
    ) -> asyncio.Future[Any]:
        """Call in a thread; the clock stands still until it returns."""
        self.works_elsewhere += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: asyncio.Future[Any]) -> None:
        self.works_elsewhere -= 1

    @contextmanager
    def stands_still(self) -> Iterator[None]:
        """Let no time pass: what is awaited comes from a thread that the loop did not start."""
        self.works_elsewhere += 1
        try:
            yield
        finally:
            self.works_elsewhere -= 1


class ClockAhead:
    """The running loop's clock, which a test can move ahead."""

    def __init__(self) -> None:
        """Take over the running loop's clock."""
        self._ahead_s = 0.0
        asyncio.get_running_loop().time = self.now  # type: ignore[method-assign]

    def now(self) -> float:
        """Seconds, as the loop has them."""
        return time.monotonic() + self._ahead_s

    def move(self, seconds: float) -> None:
        """Let as many seconds have passed; timers that are due run before the next wait."""
        self._ahead_s += seconds


def passed_s() -> float:
    """Simulated seconds since the test began."""
    return asyncio.get_running_loop().time() - START_S


async def elapse(seconds: float) -> None:
    """Let simulated time pass: every other task goes on as far as it can by then."""
    _simulated_loop()
    await asyncio.sleep(seconds)


async def await_thread(awaited: Awaitable[T]) -> T:
    """Wait for a thread that the loop did not start, as a pool of the product's own; no simulated time passes.

    Raises TimeoutError after HANG_S real seconds in which nothing came.
    """
    with _simulated_loop().stands_still():
        return await awaited


def _simulated_loop() -> SimulatedLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimulatedLoop):
        raise TypeError("mark the test `simulated_time`: a pause of real seconds proves nothing")
    return loop
