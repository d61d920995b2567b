"""One request on a simulated device that waits for a model on the host and verifies its drafts."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
from windlass_lookahead._core import ModelTimes, model_drafter, recorded_drafter, simulated_model
from windlass_lookahead.draft_model import Settings, read_weights
from windlass_lookahead.round_trip import CACHE, LATE

from .conftest import MOST, Device

K = 4
VOCABULARY = 1000
DEMO = Path(__file__).parents[4] / "models/demo"
COSTS = np.linspace(10.0, 10.4, MOST + 1)
"""Milliseconds by the engine's table; the simulated device is quicker."""
DECODER_CALL_US = 100
"""Simulated time of a pass of the demo model, and of a layer over a piece of text."""


def new_text(seed, length=600):
    """Text in which nothing repeats, so the cache has nothing to draft."""
    return random.Random(seed).sample(range(2, 998), length)  # noqa: S311  seeded, no secret


class Engine:
    """One request on a device of `step_ms` that waits for drafts as the kernel does."""

    def __init__(self, device, text, step_ms, name="a"):
        self.device, self.text, self.name = device, text, name
        device.step_us = 1000 * step_ms
        self.at, self.number, self.source, self.rejected = 1, 0, CACHE, 0
        self.patience_us, self.host_wait_us = math.inf, 0
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
        newest = self.text[self.at : self.at + emitted]
        self.at += emitted
        device.submit(self.number, {self.name: newest}, begun, rejected=self.rejected, source=self.source, modelled=0)
        drafts = None if self.chooses_late else self._choose()
        doorbell_us, completed_us = device.ring(self.number)
        device.us = doorbell_us
        if drafts is None:
            drafts, device.us = self._choose(), completed_us
        self.source, self.rejected, self.emitted = CACHE, 0, 1
        if drafts:
            device.us = min(completed_us, doorbell_us + self.patience_us + self.host_wait_us)
            self._verify(drafts, is_late=device.us < completed_us)

    def _choose(self):
        drafts = self.device.trip.choose([self.name], [MOST], COSTS, 1, decoding=self.number > 1)
        if drafts:
            self.host_wait_us = self.device.trip.begin_wait()
        return drafts

    def _verify(self, drafts, *, is_late):
        self.waits += 1
        if is_late:
            self.source, self.rejected = LATE, drafts
            return
        offered = self.device.tokens[0, :drafts].tolist()
        right = self.text[self.at : self.at + drafts]
        accepted = next((at for at in range(drafts) if offered[at] != right[at]), drafts)
        self.verified.append((drafts, accepted))
        self.rejected, self.emitted = drafts - accepted, 1 + accepted


def an_engine(acceptance, pass_ms, step_ms, *, text=None, texts=None, most=K, device=None, token_us=0.0):
    """Its model drafts the text with this acceptance, in the time of a simulated model."""
    device, text = device or Device(), text or new_text(7)
    times = add_model(device, acceptance, texts or [(text[:1], text[1:])], pass_ms, token_us=token_us, most=most)
    engine = Engine(device, text, step_ms)
    engine.times = times
    return engine


def add_model(device, acceptance, texts, pass_ms, *, token_us=0.0, rows=64, most=K):
    """A recorded model beside the cache; its times, which may be changed."""
    times = ModelTimes(token_us=token_us, pass_us=1000 * pass_ms)
    recorded = recorded_drafter(simulated_model(device.time, times, rows), acceptance, 3, texts)
    device.trip.add_host_model(recorded, most, VOCABULARY)
    return times


def demo_model(rows, time):
    """The decoder itself, whose work takes a simulated time."""
    return model_drafter(read_weights(DEMO, Settings(rows=rows, threads=1)), rows, time, DECODER_CALL_US)
