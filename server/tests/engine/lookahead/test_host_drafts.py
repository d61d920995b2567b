"""A model on the host's cores beside the cache: what it drafts, and what a step waits for."""

from __future__ import annotations

import pytest
from windlass_lookahead import InputError, draft_model
from windlass_lookahead._core import SimulatedTime, recorded_drafter

from .conftest import TEXT, Device
from .host_engine import DEMO, VOCABULARY, Engine, K, add_model, demo_model, new_text

MANY = 100_000


def test_new_text_is_drafted_by_the_model(engines):
    engine = engines(1.0, 0.3, 6.0)
    engine.run(40)
    counts = engine.device.trip.counts()
    assert engine.at > 100
    assert counts.models >= len(engine.verified) - 2 > 20
    assert counts.hosted >= 20
    assert all(accepted == min(verified, K) for verified, accepted in engine.verified[1:])


def test_the_cache_does_not_learn_from_the_models_drafts(engines):
    engine = engines(1.0, 0.3, 6.0)
    engine.run(40)
    found = engine.device.cache.metrics()
    assert (found.hit_len, found.lookahead_len) == (0, 0)


def test_confidences_are_what_the_policy_learned_by_place(engines):
    """The chain is written up to its length; behind it a slot has none."""
    engine = engines(1.0, 0.3, 6.0, most=2)
    engine.run(60)
    sure = engine.device.confidences[0]
    assert (sure[:2] > 0.6).all()
    assert not sure[2:].any()


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
    engine.patience_us = -engine.host_wait_us
    engine.run(20)
    counts = engine.device.trip.counts()
    assert counts.missed > 10
    assert counts.models + counts.missed < 40
    assert counts.lost == 0


def test_of_late_drafts_the_wait_counts_and_not_the_drafting(engines):
    """A step is timed without the wait: half a millisecond for the cache, as much for the model, and no three."""
    policy = {"host_late_us": -4000.0, "first_step_us": 6000.0, "host_rest_steps": 1000}
    engine = engines(1.0, 3.0, 6.0, most=1, device=Device(policy=policy))
    engine.patience_us = 500
    engine.run(30)
    counts = engine.device.trip.counts()
    assert counts.missed > 10
    assert counts.hosted >= counts.missed
    assert counts.host_us == 1000 * counts.hosted


def test_a_step_that_is_planned_after_the_answer_has_not_waited(engines):
    """The engine's thread is late, not the model: the whole time between two doorbells is the step's."""
    engine = engines(1.0, 0.3, 6.0)
    engine.run(20)
    engine.chooses_late = True
    before = engine.device.trip.counts()
    engine.run(20)
    after = engine.device.trip.counts()
    assert after.hosted > before.hosted + 10
    assert after.host_us == before.host_us > 0


def test_a_token_beyond_the_vocabulary_ends_the_chain():
    device = Device()
    text = new_text(7, 100)
    wrong = [*text[1:3], 5000, *text[4:]]
    add_model(device, 1.0, [(text[:1], wrong)], 0.1)
    try:
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
    device.trip.add_host_model(demo_model(2, device.time), K, MANY)
    engine = Engine(device, text, 8.0)
    try:
        engine.run(20)
        assert device.trip.counts().models > 3  # the text comes to repeat itself, which the cache knows, too
        assert sum(accepted for _, accepted in engine.verified[2:]) > 20
    finally:
        device.trip.close()


def test_reading_prompts_holds_up_no_doorbell():
    """A step that ends long before it is expected to has its answer at once, though many prompts wait to be read.

    The host looks at the doorbell after 300 microseconds of reading.
    """
    device = Device(policy={"first_step_us": 50_000.0, "step_weight": 0.0})
    times = add_model(device, 1.0, [], 1.0, token_us=25)
    text, waits = new_text(7), []
    device.step(1, {"a": []}, begun=[("a", text[:1]), *((f"p{at}", new_text(at, 900)) for at in range(60))])
    try:
        for number in range(2, 12):
            device.submit(number, {"a": [text[number]]}, wanted=False)
            read_us, device.step_us = times.spent_us, 1000 + 37 * number
            doorbell_us, completed_us = device.ring(number)
            device.us = doorbell_us
            waits.append(completed_us - doorbell_us)
            assert times.spent_us - read_us >= 900
    finally:
        device.trip.close()
    assert 200 < max(waits) < 350


def test_a_drafter_goes_on_to_the_next_round_trip():
    """One after the other, as a benchmark does, more often than it has rows; beneath recorded drafts."""
    time, text = SimulatedTime(), new_text(7)
    model = demo_model(2, time)
    for seed in range(4):
        device = Device(time=time)
        recorded = recorded_drafter(model, 1.0, seed, [(text[:1], text[1:])])
        device.trip.add_host_model(recorded, K, VOCABULARY)
        assert recorded.is_in_use
        engine = Engine(device, text, 4.0, name=f"request {seed}")
        engine.run(20)
        assert engine.at > 30
        device.trip.close()
        del recorded
        assert not model.is_in_use


def test_a_drafter_serves_one_round_trip(device):
    drafter = demo_model(2, device.time)
    device.trip.add_host_model(drafter, K, VOCABULARY)
    with pytest.raises(InputError, match="in use"):
        device.trip.add_host_model(drafter, K, VOCABULARY)
