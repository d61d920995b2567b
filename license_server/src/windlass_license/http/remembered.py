"""Answers to open paths, made once for everybody: a flood costs what one request costs.

`app` asks here for what takes longer than a moment to make. The clock is given; nothing here knows HTTP.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool

from windlass_license.clock import Seconds
from windlass_license.http.view import view, view_of_numbers
from windlass_license.rules.model import License

FRESH_S = 1.0
"""How old an answer may be."""
T = TypeVar("T")


class EachSecond(Generic[T]):
    """The result of a function that is called at most once a second, in a thread that nothing else takes."""

    def __init__(self, make: Callable[[], T], clock: Seconds) -> None:
        self._make, self._clock = make, clock
        self._asked: asyncio.Task[T] | None = None
        self._asked_s = 0.0

    async def get(self) -> T:
        """A result that is fresh, or that of the call under way."""
        now_s = self._clock()
        if self._asked is None or (self._asked.done() and now_s - self._asked_s >= FRESH_S):
            self._asked_s = now_s
            self._asked = asyncio.create_task(to_thread.run_sync(self._make, limiter=CapacityLimiter(1)))
        return await asyncio.shield(self._asked)


class LicenseViews:
    """The license in force as YAML, with its GPUs and as numbers of them: both are made once for each license."""

    def __init__(self) -> None:
        self._license: License | None = None
        self._whole = self._numbers = b""
        self._making = asyncio.Lock()

    async def of(self, license_: License, *, whole: bool) -> bytes:
        """The text of this license."""
        async with self._making:
            if self._license is not license_:
                self._whole, self._numbers = await run_in_threadpool(_views, license_)
                self._license = license_
            return self._whole if whole else self._numbers


def _views(license_: License) -> tuple[bytes, bytes]:
    return view(license_).encode(), view_of_numbers(license_).encode()
