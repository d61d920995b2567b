"""The rule of the start time-out: an engine that does not answer yet may take its time while it says something new.

A big model loads for an hour and says so, shard by shard. An engine that hangs is silent, or says the same line again
and again: its complaint about a queue that nobody fills comes every minute. Pure, but for the clock that it is given.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.child.output import without_prefix

VARIABLE = "WINDLASS_START_TIMEOUT"
DEFAULT_S = 1800


class Silence:
    """Seconds since the engine last said something new."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin now."""
        self._clock = clock
        self._heard: set[int] = set()
        self._since = clock()

    def begin(self) -> None:
        """The engine starts."""
        self._heard.clear()
        self._since = self._clock()

    def hear(self, line: str) -> None:
        """A line of the engine's log; its time and process do not make it new."""
        said = hash(without_prefix(line))
        if said not in self._heard:
            self._heard.add(said)
            self._since = self._clock()

    @property
    def seconds(self) -> float:
        """How long it has said nothing new."""
        return self._clock() - self._since


def sentence(silent_s: float, last_line: str, asked: str = "") -> str:
    """What is told at the end; `asked` is what it was asked last."""
    last = f' new; its last line was "{without_prefix(last_line)}"' if last_line else ""
    return (
        f"the engine has not answered{f' {asked}' if asked else ''}, and for {silent_s:.0f} s said nothing{last}; "
        f"when it only needs longer raise {VARIABLE} (seconds, 0 is never)"
    )
