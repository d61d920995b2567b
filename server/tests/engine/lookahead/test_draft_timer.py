"""What the engine's speculator took: by events of a simulated stream, and by the clock where the device waited."""

from __future__ import annotations

import pytest
from windlass.engine.lookahead import draft_timer
from windlass.engine.lookahead.draft_timer import UNDER_WAY_MAX, DraftTimer


class Stream:
    """A device that runs `behind_ms` after the host; its clock and the host's are set by the test."""

    def __init__(self, behind_ms):
        self.host_ms, self.behind_ms = 0.0, behind_ms

    def event(self):
        return Event(self)


class Event:
    def __init__(self, stream):
        self.stream, self.at_ms = stream, 0.0

    def record(self):
        self.at_ms = self.stream.host_ms + self.stream.behind_ms

    def query(self):
        return self.stream.host_ms >= self.at_ms

    def elapsed_time(self, later):
        return later.at_ms - self.at_ms


@pytest.fixture
def clock(monkeypatch):
    """The host's clock is a stream's."""

    def of(behind_ms):
        stream = Stream(behind_ms)
        monkeypatch.setattr(draft_timer.time, "perf_counter", lambda: stream.host_ms / 1000)
        return stream

    return of


def timed(stream, timer, *, host_ms, device_ms):
    """Queue work that takes the host and the device so long."""
    with timer.timing(3, 2):
        stream.host_ms += host_ms
        stream.behind_ms += device_ms - host_ms


@pytest.mark.parametrize(
    ("behind_ms", "ms"), [(6.0, 1.0), (0.5, 4.0)], ids=["behind a running step", "the device waits for the host"]
)
def test_a_step_is_longer_by_what_the_device_waits_for(clock, behind_ms, ms):
    stream = clock(behind_ms)
    timer = DraftTimer(stream.event)
    timed(stream, timer, host_ms=4.0, device_ms=1.0)
    stream.host_ms += 20
    assert list(timer.ended()) == [(3, 2, pytest.approx(ms))]
    assert list(timer.ended()) == []


def test_a_step_that_fails_keeps_nothing(clock):
    timer = DraftTimer(clock(0.0).event)
    for _ in range(2 * UNDER_WAY_MAX):
        with pytest.raises(RuntimeError), timer.timing(1, 1):
            raise RuntimeError
    assert list(timer.ended()) == []
    with timer.timing(1, 1):
        pass
    assert len(list(timer.ended())) == 1


def test_nobody_waits_for_the_device(clock):
    """What is still under way is not asked for; where too much is, a step goes untimed."""
    stream = clock(50.0)
    timer = DraftTimer(stream.event)
    for _ in range(UNDER_WAY_MAX + 2):
        timed(stream, timer, host_ms=1.0, device_ms=1.0)
    assert list(timer.ended()) == []
    stream.host_ms += 100
    assert len(list(timer.ended())) == UNDER_WAY_MAX
    timed(stream, timer, host_ms=1.0, device_ms=1.0)
    stream.host_ms += 100
    assert len(list(timer.ended())) == 1
