"""Probes during an attack: how long the slowest answer takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from windlass_testbed import attacks
from windlass_testbed.waiting import wait_until

PROBE_S = 1.0
"""Seconds that a probe may take during an attack."""
EVERY_S = 0.25
"""Below the rate that the operator's ports have for an address."""
FAILURES_MAX = 2
"""Failures in a row that the kubelet takes before it acts: its failureThreshold is 3."""
LEAST = 12
"""Answers before the watch ends: an attack's effect may come after its beginning."""


@dataclass
class Probe:
    """One probe, asked again and again."""

    ask: Callable[[], bool]
    """Whether the answer was good; may raise OSError."""
    longest_s: float = 0.0
    answers: int = 0
    failed: int = 0
    in_a_row: int = 0
    longest_row: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until the stop."""
        while not self.stop.wait(EVERY_S):
            begun = time.monotonic()
            try:
                good = self.ask()
            except OSError:
                good = False
            self.answers, self.failed = self.answers + 1, self.failed + (not good)
            self.in_a_row = 0 if good else self.in_a_row + 1
            self.longest_row = max(self.longest_row, self.in_a_row)
            self.longest_s = max(self.longest_s, time.monotonic() - begun)

    def record(self, file: str, attack: str) -> bool:
        """Append the row of this probe: every answer was good, and none took longer than a second."""
        seen = f"{self.longest_s:.2f} s at most, {self.failed} of {self.answers} failed"
        good = not self.failed and self.longest_s <= PROBE_S
        return attacks.record(file, attack, f"every answer ≤ {PROBE_S:g} s", seen, good)


@contextmanager
def probing(ask: Callable[[], bool]) -> Iterator[Probe]:
    """Probe meanwhile in a thread of its own; at least so many times, unless the block fails."""
    probe = Probe(ask)
    thread = threading.Thread(target=probe.run)
    thread.start()
    try:
        yield probe
        wait_until(lambda: probe.answers >= LEAST, "enough answers of the probe", look_s=EVERY_S)
    finally:
        probe.stop.set()
        thread.join()


def seconds_of(event: Callable[[], object]) -> float:
    """Seconds that an event takes, a wait for instance."""
    begun = time.monotonic()
    event()
    return time.monotonic() - begun
