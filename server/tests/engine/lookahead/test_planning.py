"""The policy's decisions reach the scheduler and the engine; what they are is in test_policy.py."""

from __future__ import annotations

import ctypes
import zlib

import numpy as np
import pytest
from windlass.engine.lookahead.draft_budgets import UNKNOWN, DraftBudgets
from windlass_lookahead.round_trip import BUDGETS, RoundTrip

from .conftest import MOST, TEXT, Device
from .policy_rules import config

FLAT = np.full(MOST + 1, 1.0)


def test_draft_budgets_reach_the_scheduler(tmp_path):
    """A request whose text comes back has one; one whose text never does loses it, and gets it back."""
    budgets = DraftBudgets(str(tmp_path), "0")
    device = Device(budgets=ctypes.addressof(ctypes.c_char.from_buffer(budgets.memory)))
    try:
        assert budgets.of(["a"]) == (UNKNOWN,)
        random = (300 + np.random.default_rng(1).permutation(600)).tolist()
        device.step(1, {"a": [random[0]]}, begun=[("a", TEXT)])
        for number, token in enumerate(random[1:120], 2):
            device.step(number, {"a": [token]})
        assert budgets.of(["a"]) == (0,)
        for number, token in enumerate(TEXT[:12], 121):
            device.step(number, {"a": [token]})
        assert budgets.of(["a"]) == (1 + MOST,)
        assert DraftBudgets(str(tmp_path), "0").of("a") == (1 + MOST,), "the file is the same for every process"
    finally:
        device.trip.close()


def test_a_request_that_the_drafter_has_not_met_is_planned_as_new_ones_are(tmp_path):
    """The step after its prompt is planned before the drafter meets it; what an ended request left behind is not its
    own.
    """
    budgets = DraftBudgets(str(tmp_path), "0")
    numbers = {"new_request_weight": 1.0}
    device = Device(budgets=ctypes.addressof(ctypes.c_char.from_buffer(budgets.memory)), policy=numbers)
    try:
        assert budgets.of("ab") == (UNKNOWN, UNKNOWN), "nothing is known of new requests"
        device.step(1, {"a": TEXT[:1]}, begun=[("a", TEXT)])
        assert 0 < budgets.of("b")[0] < UNKNOWN
        random = (300 + np.random.default_rng(1).permutation(600)).tolist()
        for number in range(2, 40):
            device.step(number, {"a": TEXT[number - 1 : number]})
        device.step(40, {"b": random[300:301]}, begun=[("b", random[:300])], finished=["a"])
        assert budgets.of("c") == (0,)
        assert budgets.of("a") == (0,), "a new request of the same place would have the old one's budget"
    finally:
        device.trip.close()


def test_the_scheduler_reads_the_budgets_of_any_requests(tmp_path):
    """In their order, whichever it asked for before."""
    budgets = DraftBudgets(str(tmp_path), "0")
    for at, name in enumerate("abc"):
        budgets.memory[zlib.crc32(name.encode()) % BUDGETS] = at
    assert DraftBudgets(str(tmp_path), "0").of("abc") == (0, 1, 2), "what a server before has left"
    for names, found in (("abc", (0, 1, 2)), ("b", (1,)), ("", ()), ("cab", (2, 0, 1)), ("ab", (0, 1)), ("ab", (0, 1))):
        assert budgets.of(dict.fromkeys(names)) == found
    budgets.forget()
    assert budgets.of("abc") == (UNKNOWN,) * 3


def test_the_host_naps_while_no_drafts_are_planned(tmp_path):
    """It looks for the doorbell without a pause where drafts are wanted, or may be in the next step."""
    budgets = DraftBudgets(str(tmp_path), "0")
    device = Device(budgets=ctypes.addressof(ctypes.c_char.from_buffer(budgets.memory)))
    try:
        text = (300 + np.random.default_rng(1).permutation(600)).tolist()
        device.step(1, {"a": text[:1]}, begun=[("a", TEXT)])
        wanted, unwanted = (
            _share_slept(device, first, text[first:], wanted=is_wanted, budgets=budgets, budget=0)
            for first, is_wanted in ((2, True), (202, False))
        )
        planned = _share_slept(device, 402, TEXT * 10, wanted=False, budgets=budgets, budget=1 + MOST)
        assert unwanted > 0.9
        assert wanted == planned == 0
    finally:
        device.trip.close()


def _share_slept(device, first, text, *, wanted, budgets, budget):
    """The part of 40 steps' time that the drafting thread slept, after 120 that bring the request to a budget."""
    for number in range(first, first + 160):
        if number == first + 120:
            assert budgets.of(["a"]) == (budget,)
            slept_us, us = device.time.slept_us, device.time.us
        device.step(number, {"a": [text[number - first]]}, wanted=wanted)
    return (device.time.slept_us - slept_us) / (device.time.us - us)


def test_the_number_of_drafts_reaches_the_engine(device):
    """None while the doorbell has rung for two steps that are not completed."""
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    for number in range(3, 30):  # until the policy knows that this text comes back
        device.step(number - 1, {"a": [TEXT[number]]})
    assert device.trip.choose(["a"], [MOST], FLAT, 1) == MOST
    assert device.trip.choose(["a"], [2], FLAT[:3], 1) == 2
    device.doorbell.value = device.completed.value + 1
    assert device.trip.choose(["a"], [2], FLAT[:3], 1) == 2
    device.doorbell.value = device.completed.value + 2
    assert device.trip.choose(["a"], [2], FLAT[:3], 1) == 0
    device.doorbell.value = device.completed.value


def test_steps_are_timed_from_doorbell_to_doorbell(device):
    """The running mean comes to what the simulated device takes."""
    device.step_us = 2500.0
    device.step(1, {"a": TEXT[:1]}, begun=[("a", TEXT)])
    for number in range(2, 120):
        device.step(number, {"a": [TEXT[number % 30]]})
    assert device.trip.counts().step_us == pytest.approx(2500, rel=0.02)


def test_a_round_trip_takes_the_numbers_of_its_policy(device):
    """A benchmark switches rules off with them."""
    places, sizes = device.places, (4, MOST, MOST + 1)
    other = RoundTrip(device.cache, places, *sizes, policy=config(["new-request"]), time=device.time)
    assert device.trip.choose(["new"], [MOST], FLAT, 1, decoding=False) > 0
    assert other.choose(["new"], [MOST], FLAT, 1, decoding=False) == 0
    other.close()
    with pytest.raises(ValueError, match="another name"):
        RoundTrip(device.cache, places, *sizes, policy={"luck": 1.0}, time=device.time)


def test_one_number_of_planned_drafts_for_each_request(device):
    with pytest.raises(ValueError, match="one number of planned drafts"):
        device.trip.choose(["a", "b"], [1], FLAT, 2)
