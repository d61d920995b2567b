"""A test that failed while the machine stood still runs once more.

A host stops a virtual machine for minutes at times, to save or to move it, and the machine's clocks go on meanwhile.
Then every deadline has passed at once: vLLM ends an engine whose step took over 300 s, a lease runs out, a start took
too long. Nothing of that is a fault of what is tested.
"""

import contextlib
import threading
import time

import pytest
from _pytest.runner import runtestprotocol

BEAT_S = 1
STANDSTILL_S = 60
"""The shortest gap that counts: far above what a busy machine lets a thread wait, far below vLLM's 300 s."""
PROPERTY = "stood_still_s"


class Heart(threading.Thread):
    """Notes when a wait of a second took much longer."""

    def __init__(self, shortest_s: float) -> None:
        super().__init__(name="heart", daemon=True)
        self._shortest_s = shortest_s
        self._gaps: list[tuple[float, float]] = []

    def run(self) -> None:
        """Beat until the process ends."""
        last = time.monotonic()
        while True:
            time.sleep(BEAT_S)
            now = time.monotonic()
            if now - last > BEAT_S + self._shortest_s:
                self._gaps.append((now, now - last - BEAT_S))
            last = now

    def stood_still_s(self, since: float) -> float:
        """Seconds that the machine stood still, in gaps that ended after a moment of `time.monotonic`."""
        return sum(seconds for end, seconds in self._gaps if end > since)


class Standstill:
    """The plugin: registered by a `conftest.py`, in each worker process."""

    def __init__(self, shortest_s: float = STANDSTILL_S) -> None:
        self._heart = Heart(shortest_s)
        self._heart.start()

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test as pytest does; once more, with new fixtures, when it failed and the machine stood still."""
        began = time.monotonic()
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        seconds = self._heart.stood_still_s(began)
        if seconds and any(report.failed for report in reports):
            with contextlib.suppress(Exception):  # of what the standstill broke
                item.session._setupstate.teardown_exact(None)
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            reports[-1].user_properties.append((PROPERTY, round(seconds)))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests ran again, and why."""
        for reports in terminalreporter.stats.values():
            for report in reports:
                for name, seconds in getattr(report, "user_properties", ()):
                    if name == PROPERTY:
                        terminalreporter.write_line(f"ran again: {report.nodeid}: the machine stood still {seconds} s")
