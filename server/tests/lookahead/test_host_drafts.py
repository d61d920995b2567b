"""A model on the host's cores beside the cache, with a simulated device that waits for it and verifies its drafts."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
from windlass_lookahead import InputError, draft_model
from windlass_lookahead._core import recorded_drafter
from windlass_lookahead.round_trip import CACHE, LATE, RECORD_HEADER, RECORDS

from .conftest import MOST, TEXT, Device, wait_until

K = 4
VOCABULARY, MANY = 1000, 100_000
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


@pytest.fixture
def engines():
    made = []

    def make(*words, **more):
        made.append(an_engine(*words, **more))
        return made[-1]

    yield make
    for engine in made:
        engine.device.trip.close()


def test_new_text_is_drafted_by_the_model(engines):
    engine = engines(1.0, 0.3, 6.0)
    engine.run(40)
    wait_until(lambda: engine.device.trip.counts().steps == 40)
    counts = engine.device.trip.counts()
    assert engine.at > 100
    assert counts.models >= len(engine.verified) - 2 > 20
    assert counts.hosted >= 20
    assert all(accepted == min(verified, K) for verified, accepted in engine.verified[1:])


def test_the_cache_does_not_learn_from_the_models_drafts(engines):
    engine = engines(1.0, 0.3, 6.0)
    engine.run(40)
    wait_until(lambda: engine.device.trip.counts().steps == 40)
    found = engine.device.cache.metrics()
    assert (found.hit_len, found.lookahead_len) == (0, 0)


def test_confidences_are_what_the_policy_learned_by_place(engines):
    """The chain is written up to its length; behind it a slot has none."""
    engine = engines(1.0, 0.3, 6.0, most=2)
    engine.run(60)
    sure = engine.device.confidences[0]
    assert (sure[:2] > 0.6).all()
    assert not sure[2:].any()


@pytest.mark.parametrize(("acceptance", "pass_ms"), [(0.0, 0.3), (1.0, 45.0)], ids=["always wrong", "slow"])
def test_a_model_that_cannot_win_is_not_waited_for(engines, acceptance, pass_ms):
    """It is asked for at first, where nothing is known of it; after that no step drafts and none waits."""
    engine = engines(acceptance, pass_ms, 3.0, text=new_text(7, 990))
    seen = []
    for _ in range(11):
        engine.run(60)
        seen.append((engine.device.trip.counts().hosted, engine.waits))
        if seen[-2:-1] == seen[-1:]:
            break
    assert seen[-2] == seen[-1]


def test_a_resting_model_wakes_when_its_trials_are_right(engines):
    """Drafts that no device sees are judged by the text that follows."""
    policy = {"host_rest_steps": 5, "host_trial_share": 1.0, "model_weight": 0.2, "host_trial_tokens": 16}
    text = new_text(7, 900)
    engine = engines(0.99, 0.3, 4.0, texts=[(text[:30], text[30:])], text=text, device=Device(policy=policy))
    engine.run(29)
    assert engine.at == 30
    engine.run(160)
    assert engine.at > 300


def test_a_new_model_that_rests_wakes_within_two_requests(engines):
    """Its first guess is too low to draft by, and its first trials have more of the time than later ones."""
    policy = {"model_acceptance": 0.0, "host_trial_tokens": 16, "host_rest_steps": 5}
    text = new_text(7, 900)
    engine = engines(0.99, 0.5, 4.0, texts=[(text[:1], text[1:])], text=text, device=Device(policy=policy))
    engine.run(200)
    assert engine.device.trip.counts().hosted > 10


def test_a_trial_reads_to_its_end_though_the_text_grows():
    """What its allowance buys in a step is less than the token that the step adds."""
    model = draft_model.host_drafter(DEMO, draft_model.Settings(rows=1, threads=1))
    policy = {"model_acceptance": 0.0, "model_weight": 1.0, "host_rest_steps": 5}
    policy |= {"host_first_trials": 1.0, "host_trial_share": 0.003}
    text = new_text(7, 990)
    device = Device(policy=policy)
    device.trip.add_host_model(recorded_drafter(model, 1.0, 0.0, 3, [(text[:200], text[200:])]), K, VOCABULARY)
    engine = Engine(device, text, 4.0)
    engine.at = 200
    try:
        while engine.at < 900 and device.trip.counts().hosted <= 10:
            engine.run(10)
        assert device.trip.counts().hosted > 10
    finally:
        device.trip.close()


def test_rows_whose_text_the_cache_knows_keep_its_drafts(engines):
    text = TEXT * 10
    engine = engines(0.0, 0.2, 4.0, text=text)
    engine.run(60)
    assert engine.at > 100
    assert all(accepted == verified for verified, accepted in engine.verified[-2:])


def test_late_drafts_are_dropped(engines):
    """The device verified something else in their place, so the policy does not judge the model by that."""
    engine = engines(1.0, 0.3, 6.0)
    engine.run(20)
    engine.patience_s = 0.0
    engine.run(20)
    wait_until(lambda: engine.device.trip.counts().steps == 40)
    counts = engine.device.trip.counts()
    assert counts.missed > 10
    assert counts.models + counts.missed < 40
    assert counts.lost == 0


def test_of_late_drafts_the_wait_counts_and_not_the_drafting(engines):
    """A step is timed without the wait: half a millisecond for the cache, as much for the model, and no three."""
    policy = {"host_late_us": -4000.0, "first_step_us": 6000.0, "host_rest_steps": 1000}
    engine = engines(1.0, 3.0, 6.0, most=1, device=Device(policy=policy))
    engine.patience_s = 0.00101
    engine.run(30)
    wait_until(lambda: engine.device.trip.counts().steps == 30)
    counts = engine.device.trip.counts()
    assert counts.missed > 10
    assert 0 < counts.host_us <= 1010 * counts.hosted


def test_a_step_that_is_planned_after_the_answer_has_not_waited(engines):
    """The engine's thread is late, not the model: the whole time between two doorbells is the step's."""
    engine = engines(1.0, 0.3, 6.0)
    engine.run(20)
    engine.chooses_late = True
    wait_until(lambda: engine.device.trip.counts().steps == 20)
    before = engine.device.trip.counts()
    engine.run(20)
    wait_until(lambda: engine.device.trip.counts().steps == 40)
    after = engine.device.trip.counts()
    assert after.hosted > before.hosted + 10
    assert after.host_us == before.host_us > 0


def test_a_token_beyond_the_vocabulary_ends_the_chain():
    device = Device()
    text = new_text(7, 100)
    wrong = [*text[1:3], 5000, *text[4:]]
    device.trip.add_host_model(recorded_drafter(None, 1.0, 0.1, 3, [(text[:1], wrong)]), K, VOCABULARY)
    try:
        device.step_s = 0.004
        device.step(1, {"a": []}, begun=[("a", text[:1])])
        device.step(2, {"a": [text[1]]})
        device.step(3, {"a": [text[2]]})
        assert device.drafted(0) == []
    finally:
        device.trip.close()


def test_a_model_drafts_its_own_text():
    """The decoder itself beside the cache: the demo model's greedy text, so that each draft is right."""
    settings = draft_model.Settings(rows=2, threads=1)
    model, text = draft_model.load(DEMO, settings), [5, 17, 300, 42]
    model.begin("a", text)
    while len(text) < 120:
        [chain] = model.draft(["a"], 8)
        model.append("a", chain)
        text += chain
    device = Device(vocabulary=MANY)
    device.trip.add_host_model(draft_model.host_drafter(DEMO, settings), K, MANY)
    engine = Engine(device, text, 8.0)
    engine.costs = 100 * COSTS  # a step is long enough on a busy machine, too
    try:
        engine.run(20)
        assert device.trip.counts().models > 3  # the text comes to repeat itself, which the cache knows, too
        assert sum(accepted for _, accepted in engine.verified[2:]) > 20
    finally:
        device.trip.close()


def test_reading_prompts_holds_up_no_doorbell():
    """A step that ends long before it is expected to has its answer at once, though many prompts wait to be read."""
    device = Device(policy={"first_step_us": 50_000.0, "step_weight": 0.0}, vocabulary=MANY)
    device.trip.add_host_model(draft_model.host_drafter(DEMO, draft_model.Settings(rows=64, threads=1)), K, MANY)
    text = new_text(7)
    device.step(1, {"a": []}, begun=[("a", text[:1]), *((f"p{at}", new_text(at, 900)) for at in range(60))])
    waits = []
    try:
        for number in range(2, 6):
            device.step(number, {"a": [text[number]]}, wanted=False)
            begun = time.monotonic()
            device.wait(number)
            waits.append(time.monotonic() - begun)
    finally:
        device.trip.close()
    assert min(waits) < 0.02


def test_a_drafter_goes_on_to_the_next_round_trip():
    """One after the other, as a benchmark does, more often than it has rows; beneath recorded drafts."""
    model = draft_model.host_drafter(DEMO, draft_model.Settings(rows=2, threads=1))
    text = new_text(7)
    for seed in range(4):
        device = Device()
        recorded = recorded_drafter(model, 1.0, 0.0, seed, [(text[:1], text[1:])])
        device.trip.add_host_model(recorded, K, VOCABULARY)
        assert recorded.is_in_use
        engine = Engine(device, text, 4.0, name=f"request {seed}")
        engine.costs = 100 * COSTS
        engine.run(20)
        assert engine.at > 30
        device.trip.close()
        del recorded
        assert not model.is_in_use


def test_a_round_trip_that_ends_amid_a_trial_frees_its_row():
    """The model rests from the first; each trip ends while one request is tried."""
    model = draft_model.host_drafter(DEMO, draft_model.Settings(rows=1, threads=1))
    policy = {"model_acceptance": 0.0, "host_trial_tokens": 16, "host_rest_steps": 5, "host_trial_share": 1.0}
    text = new_text(7)
    for number in range(3):
        device = Device(policy=policy)
        recorded = recorded_drafter(model, 0.0, 0.0, number, [(text[:1], text[1:])])
        device.trip.add_host_model(recorded, K, VOCABULARY)
        Engine(device, text, 4.0, name=f"request {number}").run(30)
        device.trip.close()
        del recorded
    device = Device()
    device.trip.add_host_model(recorded_drafter(model, 1.0, 0.0, 3, [(text[:1], text[1:])]), K, VOCABULARY)
    engine = Engine(device, text, 4.0, name="the last")
    engine.costs = 100 * COSTS
    engine.run(20)
    device.trip.close()
    assert engine.at > 30


def test_a_drafter_serves_one_round_trip(device):
    drafter = recorded_drafter(None, 1.0, 0.1, 3, [])
    device.trip.add_host_model(drafter, K, VOCABULARY)
    with pytest.raises(InputError, match="in use"):
        device.trip.add_host_model(drafter, K, VOCABULARY)
