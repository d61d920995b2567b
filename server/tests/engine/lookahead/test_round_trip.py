"""The host's side of a round trip, with a simulated device: memory that both see, a doorbell, an answer."""

from __future__ import annotations

import numpy as np
import pytest
from windlass_lookahead import InputError
from windlass_lookahead.round_trip import LATE, MODEL, RECORDS, RESTED
from windlass_testbed.waiting import wait_until

from .conftest import MOST, ROWS, TEXT, Device, ThreadedDevice

COSTS = np.linspace(10.0, 16.0, MOST + 1)


def test_a_repeat_is_drafted(device):
    [draft] = device.step(1, {"a": [TEXT[0]]}, begun=[("a", [*TEXT, 7, *TEXT[-5:], *TEXT[:0], 8])])
    [draft] = device.step(2, {"a": TEXT[1:4]})
    assert draft == TEXT[4 : 4 + MOST]
    assert list(device.confidences[0] <= 1) == [True] * MOST


def test_a_step_without_a_draft_repeats_the_newest_token(device):
    device.step(1, {"a": [9]}, begun=[("a", TEXT)])
    assert list(device.tokens[0]) == [9] * MOST
    assert list(device.confidences[0]) == [0.0] * MOST


def test_rows_change_places_and_keep_their_text(device):
    """The drafts of a request follow its name, whatever row it stands in."""
    other = [token + 300 for token in TEXT]
    device.step(1, {"a": [TEXT[0]], "b": [other[0]]}, begun=[("a", TEXT), ("b", other)])
    first, second = device.step(2, {"b": other[1:3], "a": TEXT[1:3]})
    assert first == other[3 : 3 + MOST]
    assert second == TEXT[3 : 3 + MOST]


def test_an_ended_requests_row_drafts_for_the_next_one_only(device):
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    other = [token + 300 for token in TEXT]
    [draft] = device.step(2, {"b": other[:3]}, begun=[("b", other)], finished=["a"])
    assert draft == other[3 : 3 + MOST]
    assert not device.cache.knows("a")


def test_the_last_text_before_a_pause_is_shared_at_once(device):
    """A step without rows, as the engine has one when it comes to rest: nobody rings for it."""
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    device.trip.submit(1, ["a"], [], [])
    device.trip.serve_next()
    assert not device.cache.knows("a")
    [draft] = device.step(2, {"b": TEXT[5:8]}, begun=[("b", [7, 8, 9])])
    assert draft == TEXT[8 : 8 + MOST]


def test_a_preempted_request_begins_anew_with_all_its_text(device):
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    [draft] = device.step(2, {"a": [TEXT[3]]}, begun=[("a", [*TEXT, *TEXT[:3]])])
    assert draft == TEXT[4 : 4 + MOST]


def test_part_of_a_prompt_drafts_nothing(device):
    [draft] = device.step(1, {"a": []}, begun=[("a", TEXT)])
    assert draft == []
    [draft] = device.step(2, {"a": TEXT[:2]})
    assert draft == TEXT[2 : 2 + MOST]


def test_a_hole_in_the_text_ends_the_drafts_of_that_request_alone(device):
    other = [token + 300 for token in TEXT]
    device.step(1, {"a": [TEXT[0]], "b": [other[0]]}, begun=[("a", TEXT), ("b", other)])
    device.lengths["a"] += 1  # a token that no record has
    first, second = device.step(2, {"a": [TEXT[1]], "b": other[1:3]})
    assert first == []
    assert second == other[3 : 3 + MOST]
    assert device.trip.counts().lost == 1


def test_a_token_outside_the_vocabulary_is_served_without_drafts(device):
    [draft] = device.step(1, {"a": [5]}, begun=[("a", [*TEXT, 1000])])
    assert draft == []
    assert device.trip.counts().lost == 1


def test_what_is_no_token_raises(device):
    with pytest.raises(InputError):
        device.trip.submit(1, [], [("a", ["x"])], ["a"])


def test_steps_that_are_not_awaited_are_followed_all_the_same(threaded_device):
    """The device may be several steps ahead of the drafting thread; what it is not asked for it does not get."""
    device = threaded_device
    device.step(1, {"a": TEXT[:1]}, begun=[("a", TEXT)])
    device.await_step(1)
    before = device.tokens.copy()
    for number in range(2, RECORDS):
        device.step(number, {"a": [TEXT[number - 1]]}, wanted=False)
    wait_until(lambda: device.trip.counts().steps == RECORDS - 1)
    assert (device.tokens == before).all()
    device.step(RECORDS, {"a": [TEXT[RECORDS - 1]]})
    device.await_step(RECORDS)
    assert device.drafted(0) == TEXT[RECORDS : RECORDS + MOST]
    assert device.trip.counts().lost == 0


def test_the_drafting_thread_answers_until_the_trip_is_closed(threaded_device):
    """Steps with a pause between them, a step without rows, and a doorbell that rings before it is looked for."""
    device = threaded_device
    device.step(1, {"a": [TEXT[0]]}, begun=[("a", TEXT)])
    device.await_step(1)
    wait_until(lambda: device.trip.counts().steps == 1)
    device.trip.submit(1, ["a"], [], [])
    wait_until(lambda: not device.cache.knows("a"))
    device.submit(2, {"b": TEXT[5:8]}, begun=[("b", [7, 8, 9])])
    wait_until(lambda: device.trip.awaited == 2)
    device.ring(2)
    device.await_step(2)
    assert device.drafted(0) == TEXT[8 : 8 + MOST]
    device.write_record(3, {"b": TEXT[8:9]})
    device.doorbell.value = 3
    device.trip.submit(3, [], [], ["b"])
    device.await_step(3)
    assert device.drafted(0) == TEXT[9 : 9 + MOST]


def test_numbers_wrap(device):
    device.doorbell.value = device.completed.value = 2**32 - 1
    [draft] = device.step(0, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    assert draft == TEXT[3 : 3 + MOST]


def test_what_was_not_verified_counts_as_not_drafted(device):
    """Of six drafts the engine looked at two and took both."""
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    device.step(2, {"a": TEXT[3:6]})
    found = device.cache.metrics()
    assert (found.hit_len, found.lookahead_len) == (2, 2)


def test_drafts_that_came_too_late_are_not_judged(device):
    """The device verified something else in their place, which it rejected."""
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    [draft] = device.step(2, {"a": [TEXT[3]]}, rejected=MOST, source=LATE)
    found = device.cache.metrics()
    assert (found.hit_len, found.lookahead_len) == (0, 0)
    assert draft == TEXT[4 : 4 + MOST]
    assert device.trip.counts().missed == 1


def test_drafts_of_the_model_are_not_judged_as_the_caches(device):
    """The policy learns from them what the model is worth; the cache follows the text."""
    device.trip.add_model()
    assert device.model.tolist() == pytest.approx([0.6] * MOST)
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    before = device.trip.choose(["b"], [MOST], COSTS, 1, decoding=False)
    for number in range(2, 60):
        device.step(number, {"a": [TEXT[number + 1 - 30 * (number > 30)]]}, rejected=MOST, source=MODEL)
    found = device.cache.metrics()
    assert (found.hit_len, found.lookahead_len) == (0, 0)
    assert device.trip.counts().models == 58
    assert device.model.tolist() == pytest.approx([0.6 * 0.98**58, *[0.6] * (MOST - 1)], abs=1e-4)
    assert 0 < device.trip.choose(["b"], [MOST], COSTS, 1, decoding=False) < before


def test_places_that_the_model_left_empty_are_not_judged(device):
    """It drafted one token of each row; whatever stood behind that was rejected."""
    device.trip.add_model()
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    for number in range(2, 30):
        device.step(number, {"a": TEXT[2:4]}, rejected=MOST - 1, source=MODEL, modelled=1)
    assert device.trip.counts().models == 28
    assert (device.model >= 0.6).all()


def test_how_much_the_model_drafts_reaches_the_engine(device):
    """All drafts for a new text, none where the cache is sure, and none without a model."""
    assert device.trip.model_drafts(["new"], 0.0) == 0
    device.trip.add_model()
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    for number in range(3, 30):
        device.step(number - 1, {"a": [TEXT[number]]})
    assert device.trip.model_drafts(["a"], 0.0) == 0
    assert device.trip.model_drafts(["new"], 0.0) == MOST


def test_a_model_that_never_pays_rests_and_is_counted():
    """Its work takes 3 ms of a step's 4: from some step on it reads nothing, nor what comes later."""
    device = Device(policy={"model_rest_steps": 8})
    try:
        device.trip.add_model()
        modelled, number = device.trip.model_drafts(["a"], 0.5), 0
        while modelled != RESTED:
            number += 1
            assert number < 500
            device.trip.choose(["a"], [MOST], np.linspace(1.5, 1.6, MOST + 1), 1)
            begun = [("a", TEXT)] if number == 1 else []
            device.step(number, {"a": [TEXT[number % 30]]}, begun, rejected=1, source=MODEL, modelled=modelled)
            device.trip.model_took(1, modelled, 3.0, 0.5)
            modelled = device.trip.model_drafts(["a"], 0.5)
        judged = device.trip.counts().models
        device.step(number + 1, {"a": [TEXT[0]]}, rejected=1, source=MODEL, modelled=RESTED)
        assert device.trip.counts().rested == 1
        assert device.trip.counts().models == judged
        assert device.trip.unread(["b", "a"]) == [1]
        device.trip.submit(number + 1, ["a"], [], [])
        device.trip.serve_next()
        assert device.trip.unread(["b", "a"]) == []
    finally:
        device.trip.close()


def test_the_watchdog_answers_when_the_thread_does_not():
    """A ring that no step was announced for must not hold the stream."""
    device = ThreadedDevice(patience_ms=60)
    try:
        device.doorbell.value = 5
        device.await_step(5)
        wait_until(lambda: device.trip.counts().released == 1)
        assert not device.confidences.any()
    finally:
        device.trip.close()


def test_rows_that_expect_nothing_are_followed_after_the_answer(device):
    """A batch whose text never repeats is not waited for, and its rows are known all the same."""
    prompts = {f"r{row}": list(range(row * 200, row * 200 + 20)) for row in range(ROWS)}
    device.step(1, {name: [prompt[-1] + 1] for name, prompt in prompts.items()}, begun=list(prompts.items()))
    for number in range(2, 60):
        device.step(number, {name: [prompt[-1] + number] for name, prompt in prompts.items()})
    counts = device.trip.counts()
    assert counts.later > 0
    assert counts.in_time + counts.later == 59 * ROWS
    assert device.cache.metrics().num_iters > 50
