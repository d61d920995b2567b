"""When a model on the host's cores rests, what it tries meanwhile, and when it wakes."""

from __future__ import annotations

import pytest
from windlass_lookahead._core import SimulatedTime, recorded_drafter

from .conftest import Device
from .host_engine import VOCABULARY, Engine, K, add_model, demo_model, new_text


@pytest.mark.parametrize(("acceptance", "pass_ms"), [(0.0, 0.3), (1.0, 45.0)], ids=["always wrong", "slow"])
def test_a_model_that_cannot_win_is_not_waited_for(engines, acceptance, pass_ms):
    """It is asked for at first, where nothing is known of it; after that no step drafts and none waits."""
    engine = engines(acceptance, pass_ms, 3.0, text=new_text(7, 990))
    engine.run(200)
    hosted, waits = engine.device.trip.counts().hosted, engine.waits
    engine.run(400)
    counts = engine.device.trip.counts()
    assert (counts.rests, counts.wakes) == (1, 0)
    assert (counts.hosted, engine.waits) == (hosted, waits)
    assert counts.trials > 0


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
    policy = {"model_acceptance": 0.0, "model_weight": 1.0, "host_rest_steps": 5}
    policy |= {"host_first_trials": 1.0, "host_trial_share": 0.003}
    text = new_text(7, 990)
    device = Device(policy=policy)
    add_model(device, 1.0, [(text[:200], text[200:])], 0.1, token_us=50, rows=1)
    engine = Engine(device, text, 4.0)
    engine.at = 200
    try:
        while engine.at < 900 and device.trip.counts().hosted <= 10:
            engine.run(10)
        assert device.trip.counts().hosted > 10
    finally:
        device.trip.close()


def test_a_round_trip_that_ends_amid_a_trial_frees_its_row():
    """The model rests from the first; each trip ends while one request is tried."""
    time, text = SimulatedTime(), new_text(7)
    model = demo_model(1, time)
    policy = {"model_acceptance": 0.0, "host_trial_tokens": 16, "host_rest_steps": 5, "host_trial_share": 1.0}
    for number in range(3):
        device = Device(policy=policy, time=time)
        recorded = recorded_drafter(model, 0.0, number, [(text[:1], text[1:])])
        device.trip.add_host_model(recorded, K, VOCABULARY)
        Engine(device, text, 4.0, name=f"request {number}").run(30)
        device.trip.close()
        del recorded
    device = Device(time=time)
    device.trip.add_host_model(recorded_drafter(model, 1.0, 3, [(text[:1], text[1:])]), K, VOCABULARY)
    engine = Engine(device, text, 4.0, name="the last")
    engine.run(20)
    device.trip.close()
    assert engine.at > 30


def a_batch(lengths, rows):
    """A device that computes for requests with prompts of these lengths; the model has a key-value cache for `rows`."""
    policy = {"model_acceptance": 1.0, "host_gain_min": 2.0, "host_rest_steps": 4}
    device = Device(policy=policy | {"first_step_us": 50_000.0, "step_weight": 0.0})
    add_model(device, 1.0, [], 1.0, token_us=50, rows=rows)
    device.step_us = 1000.0
    texts = [new_text(seed, 990) for seed in range(len(lengths))]
    begun = [(f"r{at}", text[:length]) for at, (text, length) in enumerate(zip(texts, lengths, strict=True))]

    def run(steps, lost=()):
        device.step(1, {name: [] for name, _ in begun}, begun=begun)
        device.lengths |= {name: device.lengths[name] + 1 for name in lost}  # a hole in the text
        for number in range(2, steps):
            tokens = [text[length + number - 2] for text, length in zip(texts, lengths, strict=True)]
            device.step(number, {f"r{row}": [token] for row, token in enumerate(tokens)})
            if device.trip.counts().hosted > 3:
                return

    return device, run


def test_it_does_not_rest_while_it_reads():
    """One of four requests has a short text, and drafts for it alone are not worth the wait; for all they are."""
    device, run = a_batch([1, 800, 800, 800], rows=8)
    try:
        run(190)
        assert device.trip.counts().hosted > 3
        assert device.trip.counts().rests == 0
    finally:
        device.trip.close()


@pytest.mark.parametrize("kind", ["no room", "lost"])
def test_rows_that_it_cannot_read_are_no_reason_to_wake(kind):
    """It has room for one of four, or three of them have no text any more; all together would be worth the wait."""
    device, run = a_batch([1, 300, 300, 300], rows=1 if kind == "no room" else 8)
    try:
        run(190, lost=("r1", "r2", "r3") if kind == "lost" else ())
        counts = device.trip.counts()
        assert (counts.hosted, counts.rests, counts.wakes) == (0, 1, 0)
    finally:
        device.trip.close()


def test_a_preempted_request_ends_its_trial():
    """Nothing follows that would judge its chain; another request is tried, and the model wakes."""
    policy = {"model_acceptance": 0.0, "model_weight": 1.0, "host_rest_steps": 5, "host_trial_share": 100.0}
    device = Device(policy=policy | {"first_step_us": 10_000.0, "step_weight": 0.0})
    texts = {name: new_text(seed, 400) for seed, name in enumerate("ab")}
    recorded = [(text[:1], text[1:]) for text in texts.values()]
    add_model(device, 1.0, recorded, 0.01)
    try:
        device.step(1, {"a": []}, begun=[("a", texts["a"][:1])])
        number = 2
        while device.trip.counts().trials == 0:
            device.step(number, {"a": [texts["a"][number - 1]]})
            number += 1
        device.step(number, {"b": []}, begun=[("b", texts["b"][:1])])
        for at in range(1, 60):
            device.step(number + at, {"b": [texts["b"][at]]})
        assert device.trip.counts().wakes == 1
    finally:
        device.trip.close()


def test_a_trial_that_its_text_outruns_ends():
    """Each step it reads four tokens; 96 steps do not suffice for so many."""
    policy = {"model_acceptance": 0.0, "host_rest_steps": 5, "host_trial_tokens": 800, "host_trial_share": 100.0}
    device = Device(policy=policy | {"first_step_us": 10.0, "step_weight": 0.0})
    text = new_text(7, 990)
    add_model(device, 1.0, [(text[:800], text[800:])], 0.1, token_us=50, rows=1)
    try:
        device.step(1, {"a": []}, begun=[("a", text[:1])])
        for number in range(2, 12):
            device.step(number, {"a": [text[number]]})
        assert device.trip.counts().rests == 1
        device.step(12, {"b": []}, begun=[("b", text[:800])], finished=["a"])
        for number in range(13, 108):
            device.step(number, {"b": [text[787 + number]]})
        assert device.trip.counts().outrun == 0
        for number in range(108, 118):
            device.step(number, {"b": [text[787 + number]]})
        assert device.trip.counts().outrun == 1
        assert device.trip.counts().wakes == 0
    finally:
        device.trip.close()
