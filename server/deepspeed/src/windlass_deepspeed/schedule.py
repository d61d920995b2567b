"""Decides what the batch does next: wait, take requests in, or decode. Pure; the clock is a parameter.

An idle engine lets the first request wait for others, until the batch is full or the wait is over. While rows are
decoding nobody waits: requests join between two steps as long as there is room.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The flags `--max-batch-size` and `--batch-wait-timeout`."""

    batch_size: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do; without seconds until somebody comes."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """Take so many of the waiting, oldest first."""

    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """Decode one token of every row."""


def decide(waiting: int, oldest_s: float, live: int, now_s: float, limits: Limits) -> Sleep | Join | Step:
    """What to do now; `oldest_s` is when the first of the waiting came."""
    room = limits.batch_size - live
    if live:
        return Join(min(waiting, room)) if waiting and room > 0 else Step()
    if not waiting:
        return Sleep()
    left_s = oldest_s + limits.wait_s - now_s
    return Join(min(waiting, room)) if waiting >= room or left_s <= 0 else Sleep(left_s)
