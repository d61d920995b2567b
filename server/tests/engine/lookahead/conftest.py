"""Text for the lookahead tests, and a simulated device."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest
from windlass_lookahead import LookaheadCache, Options
from windlass_lookahead._core import SimulatedTime
from windlass_lookahead.policy import DEFAULTS
from windlass_lookahead.round_trip import CACHE, RECORD_HEADER, RECORDS, Places, RoundTrip
from windlass_testbed.waiting import wait_until

MOST, ROWS = 6, 4
TEXT = list(range(100, 140))


class Device:
    """Writes records, rings and waits as a stream does, in a simulated time that the host goes by, too.

    The test's thread serves each step, so what comes of it is the same on every machine.
    """

    def __init__(
        self,
        patience_ms: int = 600_000,
        budgets: int = 0,
        rows: int = ROWS,
        policy: dict[str, float] | None = None,
        vocabulary: int = 1000,
        time: SimulatedTime | None = None,
    ) -> None:
        self.cache = LookaheadCache(Options(voc_size=vocabulary, eos_token_id=999, min_gain=0.001))
        self.records = np.zeros((RECORDS, rows, RECORD_HEADER + MOST + 1), dtype=np.int32)
        self.tokens = np.zeros((rows, MOST), dtype=np.int64)
        self.confidences = np.full((rows, MOST), 0.5, dtype=np.float32)
        self.model = np.zeros(MOST, dtype=np.float32)
        self.doorbell, self.completed = ctypes.c_uint32(0), ctypes.c_uint32(0)
        self.places = Places(
            *(part.ctypes.data for part in (self.records, self.tokens, self.confidences)),
            ctypes.addressof(self.doorbell),
            ctypes.addressof(self.completed),
            budgets,
            self.model.ctypes.data,
        )
        numbers = dict(DEFAULTS) | (policy or {})
        self.time = time or self.new_time()
        self.trip = RoundTrip(
            self.cache, self.places, rows, MOST, MOST + 1, patience_ms=patience_ms, policy=numbers, time=self.time
        )
        self.lengths: dict[str, int] = {}
        self.step_us = 4000.0
        self.us = self.time.us if self.time else 0.0
        """When the stream begins its next step."""

    def new_time(self):
        return SimulatedTime()

    def step(self, number, emitted, begun=(), finished=(), *, wanted=True, **record):
        """One step; returns what stands in each row: the drafted tokens. One that is not wanted is not waited for."""
        self.submit(number, emitted, begun, finished, wanted=wanted, **record)
        doorbell_us, completed_us = self.ring(number)
        self.us = completed_us if wanted else doorbell_us
        return [self.drafted(row) for row in range(len(emitted))]

    def submit(self, number, emitted, begun=(), finished=(), *, rejected=0, wanted=True, source=CACHE, modelled=MOST):
        """Write a step's record, and announce the step."""
        self.lengths |= {request: len(prompt) for request, prompt in begun}
        self.write_record(number, emitted, rejected=rejected, source=source)
        self.trip.submit(number, list(finished), list(begun), list(emitted), wanted=wanted, modelled=modelled)

    def write_record(self, number, emitted, *, rejected=0, source=CACHE):
        """Write what the device writes before it rings."""
        record = self.records[number % RECORDS]
        for row, (request, tokens) in enumerate(emitted.items()):
            self.lengths[request] += len(tokens)
            step = np.uint32(number).astype(np.int32)
            record[row, :RECORD_HEADER] = (step, len(tokens), rejected, self.lengths[request], source)
            record[row, RECORD_HEADER : RECORD_HEADER + len(tokens)] = tokens[::-1]

    def ring(self, number):
        """The step computes, its doorbell rings, and the host answers; when it rings, and when the answer is there."""
        doorbell_us = self.us + self.step_us
        self.time.write_at(doorbell_us, ctypes.addressof(self.doorbell), number)
        return doorbell_us, self.trip.serve_next()

    def drafted(self, row):
        return [int(token) for token, sure in zip(self.tokens[row], self.confidences[row], strict=True) if sure > 0]


class ThreadedDevice(Device):
    """A device whose host answers in the drafting thread; a test waits for events alone."""

    def new_time(self):
        return None

    def ring(self, number):
        self.doorbell.value = number
        return 0.0, 0.0

    def await_step(self, number):
        wait_until(lambda: self.completed.value == number)


@pytest.fixture
def device():
    device = Device()
    yield device
    device.trip.close()


@pytest.fixture
def threaded_device():
    device = ThreadedDevice()
    yield device
    device.trip.close()


@pytest.fixture
def prose() -> list[int]:
    """Six hundred tokens, each once: whatever is drafted from it was copied."""
    return random.Random(7).sample(range(100, 7900), 600)  # noqa: S311  seeded, no secret


@pytest.fixture
def engines():
    """Makes engines with a recorded model on the host, and closes them."""
    from .host_engine import an_engine

    made = []

    def make(*words, **more):
        made.append(an_engine(*words, **more))
        return made[-1]

    yield make
    for engine in made:
        engine.device.trip.close()
