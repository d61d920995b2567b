"""One request on a simulated device that waits for a model on the host and verifies its drafts."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
from windlass_lookahead._core import recorded_drafter
from windlass_lookahead.round_trip import CACHE, LATE, RECORD_HEADER, RECORDS

from .conftest import MOST, Device, wait_until

K = 4
VOCABULARY = 1000
DEMO = Path(__file__).parents[3] / "models/demo"
COSTS = np.linspace(10.0, 10.4, MOST + 1)
"""Milliseconds by the engine's table; the simulated device is quicker."""


def new_text(seed, length=600):
    """Text in which nothing repeats, so the cache has nothing to draft."""
    return random.Random(seed).sample(range(2, 998), length)  # noqa: S311  seeded, no secret


class Engine:
    """One request on a device of `step_ms` that waits for drafts as the kernel does."""

    def __init__(self, device, text, step_ms, name="a"):
        self.device, self.text, self.step_s, self.name = device, text, step_ms / 1000, name
        self.at, self.number, self.source, self.rejected = 1, 0, CACHE, 0
        self.patience_s, self.costs = 5.0, COSTS
        self.chooses_late = False
        self.waits = 0
        self.verified = []

    def run(self, steps):
        for _ in range(steps):
            self._step()

    def _step(self):
        """Submit, plan the next step, compute, ring, wait for the drafts that it verifies, verify them."""
        device = self.device
        self.number += 1
        begun = [(self.name, self.text[: self.at])] if self.number == 1 else []
        emitted = 1 if self.number == 1 else self.emitted
        device.trip.submit(self.number, [], begun, [self.name], wanted=True)
        drafts = None if self.chooses_late else self._choose()
        time.sleep(self.step_s)
        record = device.records[self.number % RECORDS]
        self.at += emitted
        record[0, :RECORD_HEADER] = (self.number, emitted, self.rejected, self.at, self.source)
        newest = self.text[self.at - emitted : self.at][::-1]
        record[0, RECORD_HEADER : RECORD_HEADER + emitted] = newest
        wait_until(lambda: device.trip.awaited == self.number)
        device.doorbell.value = self.number
        if drafts is None:
            self.device.wait(self.number)
            drafts = self._choose()
        self.source, self.rejected, self.emitted = CACHE, 0, 1
        if drafts:
            self._verify(drafts)

    def _choose(self):
        drafts = self.device.trip.choose([self.name], [MOST], self.costs, 1, decoding=self.number > 1)
        if drafts:
            self.device.trip.begin_wait()
        return drafts

    def _verify(self, drafts):
        until = time.monotonic() + self.patience_s
        while self.device.completed.value != self.number and time.monotonic() < until:
            time.sleep(0.0001)
        self.waits += 1
        if self.device.completed.value != self.number:
            self.source, self.rejected = LATE, drafts
            return
        offered = self.device.tokens[0, :drafts].tolist()
        right = self.text[self.at : self.at + drafts]
        accepted = next((at for at in range(drafts) if offered[at] != right[at]), drafts)
        self.verified.append((drafts, accepted))
        self.rejected, self.emitted = drafts - accepted, 1 + accepted


def an_engine(acceptance, pass_ms, step_ms, *, text=None, texts=None, most=K, device=None):
    device, text = device or Device(), text or new_text(7)
    drafter = recorded_drafter(None, acceptance, pass_ms, 3, texts or [(text[:1], text[1:])])
    device.trip.add_host_model(drafter, most, VOCABULARY)
    return Engine(device, text, step_ms)
