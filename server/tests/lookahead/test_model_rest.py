"""When a model beside the cache rests: a simulated batch whose steps take what a card's took, and a policy alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from windlass_lookahead.round_trip import RESTED

from .test_policy import MOST, a_policy


@dataclass
class Model:
    """Milliseconds that it takes in truth, and what the engine timed for all its drafts at the start."""

    read_ms: float
    draft_ms: float
    table_ms: float
    acceptance: float


SLOW = Model(read_ms=9.0, draft_ms=6.0, table_ms=9.0, acceptance=0.6)
"""A draft model of 1B beside an 8B target, as an H100 had it: launched kernel by kernel, so longer than timed."""
HEAD = Model(read_ms=0.7, draft_ms=0.6, table_ms=3.6, acceptance=0.6)
USELESS = Model(read_ms=1.0, draft_ms=0.5, table_ms=3.0, acceptance=0.05)


@dataclass
class Batch:
    """Requests of one length; a step takes `plain_ms` and a bit for each draft, and the model's time beside it."""

    model: Model
    rows: int = 1
    plain_ms: float = 6.6
    longer: float = 1.0  # than the engine's table has a plain step
    length: int = 200
    cached: tuple[float, ...] = ()
    tokens: float = 0
    ms: float = 0
    made: list[int] = field(default_factory=list)
    begun: int = 0

    def __post_init__(self):
        self.policy = a_policy()
        self.policy.add_model()
        self.chance = random.Random(self.rows)  # noqa: S311 - draws drafts, no secret
        self.left = {}

    def run(self, steps):
        before = self.tokens, self.ms
        for _ in range(steps):
            self.step()
        return (self.tokens - before[0]) / (self.ms - before[1])

    def step(self):
        for _ in range(self.rows - len(self.left)):
            self.begun += 1
            self.left[f"r{self.begun}"] = self.chance.randint(1, 2 * self.length)
        ids, model = list(self.left), self.model
        made = self.policy.model_drafts(ids, model.table_ms)
        self.made.append(made)
        costs = [self.plain_ms * (1 + 0.0015 * drafts) + model.table_ms for drafts in range(self.rows * MOST + 1)]
        verified = self.policy.drafts_to_verify(ids, [MOST] * self.rows, costs, self.rows, True, 0)
        ms = self.longer * self.plain_ms * (1 + 0.0015 * verified)
        ms += 0 if made == RESTED else model.read_ms + max(0, made) * model.draft_ms
        self.policy.doorbell(1000 * ms, False, self.rows)
        self.policy.completed(self.rows, True, True, verified, made)
        self.ms += ms
        unread = {ids[row] for row in self.policy.unread(ids)}
        for row, request in enumerate(ids):
            mine = min(max(made, 0), verified // self.rows + (row < verified % self.rows))
            accepted = 0 if request in unread else self.accepted(mine)
            if mine and request not in unread:
                self.policy.model_judged(mine, accepted)
            self.tokens += 1 + accepted
            self.left[request] -= 1 + accepted
            self.policy.drafted(request, list(self.cached), sum(self.cached))
        self.policy.update_planning(ids, True)
        for request in [one for one, left in self.left.items() if left <= 0]:
            del self.left[request]
            self.policy.finish(request)

    def accepted(self, drafts):
        for at in range(drafts):
            if self.chance.random() >= self.model.acceptance:
                return at
        return drafts

    @property
    def rested(self):
        return self.made.count(RESTED) / len(self.made)

    @property
    def plain_rate(self):
        return self.rows / (self.longer * self.plain_ms)


@pytest.mark.parametrize("rows", [1, 10, 64])
@pytest.mark.parametrize("model", [SLOW, USELESS], ids=["slow", "useless"])
def test_a_model_that_cannot_win_rests(model, rows):
    """Then decoding is as fast as without it, its trials included."""
    batch = Batch(model, rows)
    rate = batch.run(20_000)
    assert batch.rested > 0.95
    assert rate > 0.97 * batch.plain_rate


@pytest.mark.parametrize("longer", [1.0, 1.5], ids=["as the table says", "longer than the table says"])
@pytest.mark.parametrize("rows", [1, 10, 64])
def test_a_head_that_wins_goes_on(rows, longer):
    batch = Batch(HEAD, rows, longer=longer)
    rate = batch.run(5000)
    assert batch.rested == 0
    assert rate > 1.1 * batch.plain_rate


def test_a_rest_that_gains_nothing_ends():
    """The table has the plain step half as long as it is, so that the model seems to lose; no second time."""
    batch = Batch(Model(read_ms=2.0, draft_ms=1.5, table_ms=6.0, acceptance=0.6), rows=4, plain_ms=4.0, longer=2.0)
    batch.run(5000)
    naps = sum(now == RESTED != before for before, now in zip(batch.made, batch.made[1:], strict=False))
    assert naps <= 2
    assert batch.rested < 0.1


def test_a_model_is_tried_again_with_a_request_that_begins():
    """After a minute of steps, then two; one that has become good stays awake."""
    batch = Batch(USELESS, rows=4)
    batch.run(3000)
    assert batch.made[-1] == RESTED
    trials = []
    for _ in range(100_000):
        batch.step()
        if batch.made[-1] != RESTED == batch.made[-2]:
            trials.append(batch.ms)
    first, second, third = trials
    assert 1.8 < (third - second) / (second - first) < 2.2
    batch.model = Model(USELESS.read_ms, USELESS.draft_ms, USELESS.table_ms, acceptance=0.8)
    batch.run(200_000)
    assert batch.made[-1] > 0
    assert batch.run(2000) > 1.5 * batch.plain_rate


def test_requests_whose_text_it_missed_have_none_of_its_drafts():
    """Those that were there while it rested; the one with which it woke has them."""
    batch = Batch(USELESS, rows=4, length=10_000)
    while batch.made.count(RESTED) < 10:
        batch.step()
    old = list(batch.left)
    assert batch.policy.unread(["new", *old]) == [1, 2, 3, 4]
    assert batch.policy.draft_budget(0.0) == 0
    batch.policy.finish(old[0])
    assert batch.policy.unread(old) == [1, 2, 3]
