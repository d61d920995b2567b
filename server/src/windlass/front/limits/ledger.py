"""What each key used in the last minute, as counts that replicas can merge. Pure; the clock is an argument.

A cell belongs to one writer and one second, and its counts only grow. The greater count of two copies is the newer one,
so that merging needs no order and a message may come twice (a grow-only counter for each writer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

WINDOW_S = 60
AHEAD_S = 5
"""Seconds that another replica's clock may be ahead; a later second was written before our clock was put back."""

Row: TypeAlias = tuple[str, str, int, int, int, int]
"""Key, writer, second, requests, tokens, tokens given back."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a key used in the window."""

    requests: int = 0
    tokens: int = 0
    running: int = 0


@dataclass(slots=True)
class _Sum:
    requests: int = 0
    tokens: int = 0


class Ledger:
    """The cells of all writers. The window takes in whole seconds, so it is up to a second longer than a minute."""

    def __init__(self) -> None:
        """Nothing is used."""
        self._cells: dict[tuple[str, str, int], tuple[int, int, int]] = {}
        self._sums: dict[str, dict[int, _Sum]] = {}

    def add(self, key: str, writer: str, second: int, requests: int, tokens: int) -> Row:
        """Count more of a writer's own; negative tokens are given back. The cell as it is now."""
        before = self._cells.get((key, writer, second), (0, 0, 0))
        after = (before[0] + requests, before[1] + max(0, tokens), before[2] + max(0, -tokens))
        row = (key, writer, second, *after)
        self._set(row)
        return row

    def merge(self, rows: Iterable[Row], now: float) -> None:
        """Take in another replica's cells, those of the window."""
        for key, writer, second, *counts in rows:
            if _counts(second, now):
                before = self._cells.get((key, writer, second), (0, 0, 0))
                greater = tuple(map(max, before, counts))
                if greater != before:
                    self._set((key, writer, second, *greater))  # type: ignore[arg-type]  # three counts

    def used(self, key: str, now: float, writer: str = "") -> tuple[int, int]:
        """Requests and tokens of a key in the window; of one writer when it is named."""
        if writer:
            seconds = range(int(now) - WINDOW_S, int(now) + AHEAD_S + 1)
            cells = [self._cells.get((key, writer, second), (0, 0, 0)) for second in seconds]
            return sum(cell[0] for cell in cells), sum(cell[1] - cell[2] for cell in cells)
        sums = [one for second, one in self._sums.get(key, {}).items() if _counts(second, now)]
        return sum(one.requests for one in sums), sum(one.tokens for one in sums)

    def rows(self) -> Iterator[Row]:
        """Every cell."""
        for place, counts in self._cells.items():
            yield (*place, *counts)

    def forget(self, now: float) -> None:
        """Drop the cells before the window, and those after it."""
        self._cells = {place: counts for place, counts in self._cells.items() if _counts(place[2], now)}
        for key, sums in list(self._sums.items()):
            kept = {second: one for second, one in sums.items() if _counts(second, now)}
            if kept:
                self._sums[key] = kept
            else:
                del self._sums[key]

    def wait_s(self, key: str, now: float, requests: int, tokens: int) -> float:
        """Seconds until at least so many requests and tokens have left the window."""
        until = now
        for second, one in sorted(self._sums.get(key, {}).items()):
            if (requests <= 0 and tokens <= 0) or second > now + AHEAD_S:
                break
            requests, tokens = requests - one.requests, tokens - one.tokens
            until = max(until, second + WINDOW_S + 1)
        return until - now

    def _set(self, row: Row) -> None:
        key, writer, second, *counts = row
        before = self._cells.get((key, writer, second), (0, 0, 0))
        one = self._sums.setdefault(key, {}).setdefault(second, _Sum())
        one.requests += counts[0] - before[0]
        one.tokens += counts[1] - counts[2] - before[1] + before[2]
        self._cells[key, writer, second] = (counts[0], counts[1], counts[2])


def _counts(second: int, now: float) -> bool:
    return int(now) - WINDOW_S <= second <= now + AHEAD_S
