"""A test that failed while the machine stood still runs once more.

A host stops a virtual machine for minutes at times, to save or to move it, and the machine's clocks go on meanwhile.
Then every deadline has passed at once: vLLM ends an engine whose step took over 300 s, a lease runs out, a start took
too long. Nothing of that is a fault of what is tested. A fixture that broke then may serve later tests, too: the first
that fails runs again with new ones.
"""

import contextlib
import threading
import time

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.runner import runtestprotocol

BEAT_S = 1
STANDSTILL_S = 60
"""The shortest gap that counts: far above what a busy machine lets a thread wait, far below vLLM's 300 s."""
PROPERTY = "stood_still"


class Heart(threading.Thread):
    """Notes when a wait of a second took much longer, and this process did not keep it waiting."""

    def __init__(self, shortest_s: float) -> None:
        super().__init__(name="heart", daemon=True)
        self._shortest_s = shortest_s
        self._gaps: list[tuple[float, float]] = []
        self._last = time.monotonic()
        self._worked_s = time.process_time()

    def run(self) -> None:
        """Beat until the process ends."""
        while True:
            time.sleep(BEAT_S)
            if gap_s := self._gap_s():
                self._gaps.append((time.monotonic(), gap_s))
            self._last, self._worked_s = time.monotonic(), time.process_time()

    def stood_still_s(self, since: float) -> float:
        """Seconds that the machine stood still, in gaps that ended after a moment of `time.monotonic`."""
        noted = sum(seconds for end, seconds in self._gaps if end > since)
        return noted or self._gap_s()  # the thread may not have had its turn yet

    def _gap_s(self) -> float:
        """Of the beat under way; 0 where it is short, or where this process worked through it."""
        gap_s = time.monotonic() - self._last - BEAT_S
        has_worked = time.process_time() - self._worked_s > gap_s / 2
        return 0.0 if gap_s < self._shortest_s or has_worked else gap_s


class Standstill:
    """The plugin: registered by a `conftest.py`, in each worker process."""

    def __init__(self, shortest_s: float = STANDSTILL_S) -> None:
        self._heart = Heart(shortest_s)
        self._heart.start()
        self._since = time.monotonic()  # what stands now was made after it

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test as pytest does; once more, with new fixtures, when it failed and the machine stood still."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = next((report for report in reports if report.failed), None)
        if failed and (seconds := self._heart.stood_still_s(self._since)):
            self._since = time.monotonic()
            _start_timer(item)
            with contextlib.suppress(Exception, OutcomeException, BaseExceptionGroup):  # of what the standstill broke
                item.session._setupstate.teardown_exact(None)
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            last = (failed.longreprtext.strip().splitlines() or [""])[-1]
            reports[-1].user_properties.append((PROPERTY, f"{seconds:.0f} s; before, it failed with {last}"))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests ran again, and why."""
        for reports in terminalreporter.stats.values():
            for report in reports:
                for name, words in getattr(report, "user_properties", ()):
                    if name == PROPERTY:
                        terminalreporter.write_line(f"ran again: {report.nodeid}: the machine stood still {words}")


def _start_timer(item: pytest.Item) -> None:
    """Start pytest-timeout's timer of a test again: a failure has ended it."""
    if plugin := item.config.pluginmanager.get_plugin("timeout"):
        settings = plugin._get_item_settings(item)
        if settings.timeout and not settings.func_only:
            item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
