"""Text for the lookahead tests, and a simulated device."""

from __future__ import annotations

import ctypes
import random
import time

import numpy as np
import pytest
from windlass_lookahead import LookaheadCache, Options
from windlass_lookahead.policy import config
from windlass_lookahead.round_trip import CACHE, RECORD_HEADER, RECORDS, Places, RoundTrip

MOST, ROWS = 6, 4
TEXT = list(range(100, 140))


class Device:
    """Writes records, rings and waits as a stream does."""

    def __init__(
        self,
        patience_ms: int = 5000,
        budgets: int = 0,
        rows: int = ROWS,
        policy: dict[str, float] | None = None,
        vocabulary: int = 1000,
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
        numbers = config() | (policy or {})
        self.trip = RoundTrip(self.cache, self.places, rows, MOST, MOST + 1, patience_ms=patience_ms, policy=numbers)
        self.lengths: dict[str, int] = {}
        self.step_s = 0.0

    def step(
        self,
        number,
        emitted,
        begun=(),
        finished=(),
        *,
        rejected=0,
        wanted=True,
        source=CACHE,
        modelled=MOST,
        ahead=False,
    ):
        """One step; returns what stands in each row: the drafted tokens. One that is not wanted is not waited for.

        Unless it is ahead of the host the device rings when it is looked for, however busy the machine: what is late is
        not timed.
        """
        self.lengths |= {request: len(prompt) for request, prompt in begun}
        self.trip.submit(number, list(finished), list(begun), list(emitted), wanted=wanted, modelled=modelled)
        record = self.records[number % RECORDS]
        for row, (request, tokens) in enumerate(emitted.items()):
            self.lengths[request] += len(tokens)
            step = np.uint32(number).astype(np.int32)
            record[row, :RECORD_HEADER] = (step, len(tokens), rejected, self.lengths[request], source)
            record[row, RECORD_HEADER : RECORD_HEADER + len(tokens)] = tokens[::-1]
        time.sleep(self.step_s)
        if not ahead:
            wait_until(lambda: self.trip.awaited == number)
        self.doorbell.value = number
        if wanted:
            self.wait(number)
        return [self.drafted(row) for row in range(len(emitted))]

    def wait(self, number, seconds=5.0):
        deadline = time.monotonic() + seconds
        while self.completed.value != number:
            assert time.monotonic() < deadline, "the step was not completed"

    def drafted(self, row):
        return [int(token) for token, sure in zip(self.tokens[row], self.confidences[row], strict=True) if sure > 0]


@pytest.fixture
def device():
    device = Device()
    yield device
    device.trip.close()


@pytest.fixture
def wide_device():
    device = Device(rows=24)
    yield device
    device.trip.close()


def wait_until(holds, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


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
