"""A clock that never runs backwards, across restarts too, and that says how much time it skipped.

An operator who sets the date back must not revive an expired license, and a clock step must not free or freeze a
seat. So time goes on by the monotonic clock from the latest time ever seen, and follows the wall clock only forwards.
A forward jump (a suspended node, a corrected date) is time in which nobody could renew: `skipped` grows by it, and
the service gives it back to the leases.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from windlass_license.dates import LATEST, later

JUMP = timedelta(seconds=10)
"""A larger difference between wall and monotonic clock is a jump, a smaller one is drift."""

Seconds = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the clock."""

    now: datetime
    skipped: timedelta
    """Time jumped over since the clock was made."""
    behind: timedelta
    """How far the wall clock is behind `now`: more than nothing after it was set back."""


class GuardedClock:
    """Reads two clocks of seconds; `floor` is the latest time seen before this process started."""

    def __init__(self, floor: datetime | None, wall: Seconds = time.time, monotonic: Seconds = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._lock = threading.Lock()
        start = _moment(wall())
        self._anchor = start if floor is None else max(floor, start)
        self._anchor_s = monotonic()
        self._skipped = timedelta()

    def read(self) -> Reading:
        """The guarded time."""
        with self._lock:
            wall, elapsed_s = _moment(self._wall()), self._monotonic() - self._anchor_s
            steady = later(self._anchor, timedelta(seconds=elapsed_s))
            if wall > steady:
                self._skipped += wall - steady if wall - steady > JUMP else timedelta()
                self._anchor, self._anchor_s = wall, self._anchor_s + elapsed_s
                steady = wall
            return Reading(steady, self._skipped, steady - wall)


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a date beyond the year 9999
        return LATEST
