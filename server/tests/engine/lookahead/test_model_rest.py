"""When a model beside the cache rests: simulated batches whose steps take what a card's took, and a policy alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from windlass_lookahead.round_trip import RESTED
from windlass_testbed.cases import every_case

from .test_policy import CHEAP, MOST, a_policy, a_step, chosen


@dataclass(frozen=True)
class Model:
    """Milliseconds that it takes in truth, and what the engine timed for all its drafts at the start."""

    read_ms: float
    draft_ms: float
    table_ms: float
    acceptance: float


SLOW = Model(read_ms=9.0, draft_ms=6.0, table_ms=9.0, acceptance=0.6)
"""A draft model of 1B beside an 8B target, as an H100 had it: launched kernel by kernel, so longer than timed."""
HEAD = Model(read_ms=0.7, draft_ms=0.6, table_ms=3.6, acceptance=0.6)
READER = Model(read_ms=9.0, draft_ms=0.6, table_ms=3.6, acceptance=0.5)
"""Its reading is launched kernel by kernel, and its drafts run as graphs."""
USELESS = Model(read_ms=1.0, draft_ms=0.5, table_ms=3.0, acceptance=0.05)


@dataclass
class Batch:
    """Requests of some length; a step takes `plain_ms` and a bit for each draft, and the model's time beside it."""

    model: Model
    rows: int = 1
    plain_ms: float = 6.6
    longer: float = 1.0  # than the engine's table has a step
    length: int = 200  # of an answer, on average
    timed: bool = True
    covered: int = 64 * MOST  # drafts of a step that the engine's table has
    tokens: float = 0
    ms: float = 0
    later: float | None = None  # acceptance of drafts behind the first, where it is another
    made: list[int] = field(default_factory=list)
    begun: int = 0

    def __post_init__(self):
        self.policy = a_policy()
        self.policy.add_model()
        self.chance = random.Random(self.rows)  # noqa: S311 - draws drafts, no secret
        self.left = {}

    def run(self, steps):
        """Tokens a millisecond, as a multiple of what they are without the model."""
        before = self.tokens, self.ms
        for _ in range(steps):
            self.step()
        return (self.tokens - before[0]) / (self.ms - before[1]) * self.longer * self.plain_ms / self.rows

    def step(self):
        for _ in range(self.rows - len(self.left)):
            self.begun += 1
            self.left[f"r{self.begun}"] = self.chance.randint(1, 2 * self.length)
        while len(self.left) > self.rows:
            self.end(next(iter(self.left)))
        ids, model = list(self.left), self.model
        verified = self.choose(ids)
        made = self.policy.model_drafts(ids, model.table_ms)
        own_ms = 0 if made == RESTED else model.read_ms + made * model.draft_ms
        ms = self.longer * self.plain_ms * (1 + 0.0015 * verified) + own_ms
        if self.timed and made != RESTED:
            self.policy.model_took(len(ids), made, own_ms, model.table_ms)
        self.policy.doorbell(1000 * ms, False, len(ids))
        self.policy.completed(len(ids), True, True, verified, made)
        self.emit(ids, verified)
        self.policy.update_planning(ids, True)
        self.made.append(made)
        self.ms += ms

    def choose(self, ids):
        """As the engine does: it asks where drafts are planned, and a step has those that the one before it made."""
        planned = [MOST if self.policy.draft_budget(0.0) else 0] * len(ids)
        if not any(planned):
            return 0
        most = min(sum(planned), self.covered)
        table_ms = [self.plain_ms * (1 + 0.0015 * drafts) + self.model.table_ms for drafts in range(most + 1)]
        return self.policy.drafts_to_verify(ids, planned, table_ms, len(ids), True, 0)

    def emit(self, ids, verified):
        unread = {ids[row] for row in self.policy.unread(ids)}
        drafts = max(self.made[-1], 0) if self.made else 0
        read = [request for request in ids if request not in unread]
        for row, request in enumerate(read):
            mine = min(drafts, verified // len(read) + (row < verified % len(read)))
            accepted = self.accepted(mine)
            if mine:
                self.policy.model_judged(mine, accepted)
            self.tokens += accepted
            self.left[request] -= accepted
        for request in ids:
            self.tokens += 1
            self.left[request] -= 1
            self.policy.drafted(request, [], 0.0)
            if self.left[request] <= 0:
                self.end(request)

    def end(self, request):
        del self.left[request]
        self.policy.finish(request)

    def accepted(self, drafts):
        for at in range(drafts):
            sure = self.later if at and self.later is not None else self.model.acceptance
            if self.chance.random() >= sure:
                return at
        return drafts

    @property
    def rested(self):
        return self.made.count(RESTED) / len(self.made)


@every_case("rows", [1, 10, 64])
@every_case(
    "model",
    [SLOW, USELESS, READER, replace(SLOW, table_ms=6.0), replace(SLOW, read_ms=6.0, table_ms=6.0, acceptance=0.7)],
    ids=["slow", "useless", "reader", "much longer than timed", "often accepted"],
)
def test_a_model_that_cannot_win_rests(model, rows):
    """Then decoding is as fast as without it, its trials included."""
    batch = Batch(model, rows)
    speed = batch.run(8000)
    assert batch.rested > 0.95
    assert speed > 0.94


@every_case("longer", [1.0, 1.5, 3.0])
@every_case("length", [200, 3000])
@every_case("rows", [1, 10, 64])
@every_case("model", [HEAD, replace(HEAD, read_ms=1.5, acceptance=0.7)], ids=["head", "slower head"])
def test_a_head_that_wins_goes_on(model, rows, length, longer):
    """However much longer steps are than the engine's table has them, as with long texts."""
    batch = Batch(model, rows, longer=longer, length=length)
    speed = batch.run(3000)
    assert batch.rested == 0
    assert speed > 1.05


def test_drafts_that_no_step_may_verify_count_for_nothing():
    """Of 384 drafts of 64 rows the engine verifies 16."""
    batch = Batch(replace(HEAD, read_ms=1.5), 64, covered=16)
    assert batch.run(4000) > 0.94
    assert batch.rested > 0.9


def test_few_texts_that_it_has_read_are_not_worth_reading_all():
    """One of 64 requests began after it woke, and the others go on for long."""
    model = Model(read_ms=6.0, draft_ms=3.0, table_ms=18.0, acceptance=0.05)
    batch = Batch(model, 64, plain_ms=40.0, length=1_000_000)
    while batch.ms < 70_000:
        batch.step()
    batch.model = Model(read_ms=16.0, draft_ms=3.0, table_ms=18.0, acceptance=0.7)
    batch.end(next(iter(batch.left)))
    batch.step()
    assert batch.made[-1] == 1
    batch.run(400)
    assert batch.made[-1] == RESTED


def test_a_trial_that_is_won_and_lost_at_once_counts_as_lost():
    """Its first draft is accepted, and no other: the pauses grow all the same."""
    batch = Batch(Model(read_ms=4.0, draft_ms=1.5, table_ms=6.0, acceptance=0.05), 4)
    batch.later = 0.05
    batch.run(1000)
    batch.model = replace(batch.model, acceptance=0.9)
    trials = []
    while batch.ms < 600_000 and len(trials) < 20:
        batch.step()
        if batch.made[-1] != RESTED == batch.made[-2]:
            trials.append(batch.ms)
    pauses = [later - earlier for earlier, later in pairwise(trials)]
    assert all(later > 1.5 * earlier for earlier, later in pairwise(pauses))


def test_a_model_that_nobody_times_never_rests():
    batch = Batch(SLOW, timed=False)
    batch.run(1000)
    assert batch.rested == 0


@pytest.mark.parametrize("length", [200, 3000])
@pytest.mark.parametrize("rows", [4, 64])
def test_trials_take_little(rows, length):
    """After a minute, then two, then four. One that has become good stays awake, unless most texts outlast a trial."""
    model = Model(read_ms=6.0, draft_ms=3.0, table_ms=18.0, acceptance=0.05)
    batch = Batch(model, rows, plain_ms=40.0, length=length)
    batch.run(500)
    assert batch.made[-1] == RESTED
    assert batch.run(3500) > 0.985
    trials, awake = [], 0
    while batch.ms < 500_000:
        batch.step()
        awake += batch.made[-1] != RESTED
        if batch.made[-1] != RESTED == batch.made[-2]:
            trials.append(batch.ms)
    assert 1 <= len(trials) <= 2
    assert awake <= 300 * len(trials)
    batch.model = replace(model, acceptance=0.8)
    speed = batch.run(15_000)
    if (rows, length) == (64, 3000):
        assert speed > 0.97
        return
    assert batch.made[-1] > 0
    assert batch.run(500) > 1.2


@pytest.mark.parametrize("rows", [1, 10])
def test_a_model_that_rests_in_a_large_batch_serves_a_small_one(rows):
    """Nothing is planned there, so no table says what its steps take; a trial finds out."""
    batch = Batch(replace(HEAD, acceptance=0.15), 64)
    batch.run(2000)
    assert batch.made[-1] == RESTED
    batch.rows, batch.model = rows, HEAD
    batch.run(15_000)
    assert batch.made[-1] > 0


def test_requests_whose_text_it_missed_have_none_of_its_drafts():
    """Those that were there while it rested; the one with which it woke has them."""
    batch = Batch(USELESS, rows=4, length=100_000)
    while batch.ms < 70_000:
        batch.step()
    old = list(batch.left)
    assert batch.made[-1] == RESTED
    assert batch.policy.unread(old) == [0, 1, 2, 3]
    assert batch.policy.draft_budget(0.0) == 0
    batch.end(old[0])
    batch.step()
    assert batch.made[-1] == 1
    assert batch.policy.unread(list(batch.left)) == [0, 1, 2]
    batch.end(list(batch.left)[3])
    batch.rows = 3
    batch.step()
    assert batch.made[-1] == RESTED, "only texts with holes are left"


def test_a_late_host_leaves_no_drafts_of_a_resting_model():
    policy = a_policy()
    policy.add_model()
    a_step(policy, ["a"])
    for _ in range(20):
        chosen(policy, ["a"], CHEAP)
    for _ in range(400):
        policy.model_took(1, MOST, 50.0, 5.0)
        made = policy.model_drafts(["a"], 5.0)
        chosen(policy, ["a"], CHEAP)
        policy.doorbell(60_000, False, 1)
        policy.completed(1, True, True, MOST, made)
        if made == RESTED:
            break
    assert made == RESTED
    assert (chosen(policy, ["a"], CHEAP, behind=2), policy.model_drafts(["a"], 5.0)) == (0, RESTED)
