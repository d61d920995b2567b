"""Which requests are worth drafts, how many a step verifies, and what that is known by."""

from __future__ import annotations

import ctypes
import itertools
import time

import numpy as np
import pytest
from windlass.lookahead.promises import MANY, Promises

from .conftest import MOST, TEXT, Device, wait_until


def test_the_scheduler_hears_which_requests_are_worth_drafts_for(tmp_path):
    """A request whose text comes back is; one whose text never does loses its drafts, and gets them back."""
    promises = Promises(str(tmp_path), "0")
    device = Device(promises=ctypes.addressof(ctypes.c_char.from_buffer(promises.memory)))
    device.step_s = 0.001
    try:
        assert promises.of("a") == MANY, "nobody knows better yet"
        random = (300 + np.random.default_rng(1).permutation(600)).tolist()
        device.step(1, {"a": [random[0]]}, begun=[("a", TEXT)])
        for number, token in enumerate(random[1:300], 2):
            device.step(number, {"a": [token]})
        wait_until(lambda: not promises.of("a"))
        for number, token in enumerate(TEXT[:12], 301):
            device.step(number, {"a": [token]})
        wait_until(lambda: promises.of("a") == 1 + MOST)
        assert Promises(str(tmp_path), "0").of("a") == 1 + MOST, "the file is the same for every process"
    finally:
        device.trip.close()


STEEP = np.linspace(1.0, 1.0 + MOST, MOST + 1)
"""Each draft costs as much as the step without any."""
FLAT = np.full(MOST + 1, 1.0)


def test_as_many_drafts_are_verified_as_are_worth_their_time(device):
    """As they were drafted last; nothing when they cost more than they save, all when they cost nothing."""
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    for number in range(3, 30):  # until it is known that this text comes back
        device.step(number - 1, {"a": [TEXT[number]]})
    wait_until(lambda: device.trip.choose(["a"], [MOST], np.linspace(1.0, 1.2, MOST + 1), 1) == MOST)
    assert device.trip.choose(["a"], [2], FLAT[:3], 1) == 2, "no more than are planned"
    assert device.trip.choose(["a"], [MOST], FLAT[:4], 1) == 3, "no more than there is room for"
    assert device.trip.choose(["a"], [0], FLAT[:1], 1) == 0
    assert device.trip.choose(["a"], [MOST], STEEP, 1) == 0


def test_a_request_that_nobody_knows_is_expected_to_be_like_the_last_ones(device):
    cheap = np.linspace(1.0, 1.3, MOST + 1)
    assert device.trip.choose(["new"], [MOST], cheap, 1, decoding=False) == 1, "a little may be there"
    for name in range(60):  # none of them repeats anything
        begun = [(f"r{name}", list(range(3 * name, 3 * name + 40)))]
        device.step(2 * name + 1, {f"r{name}": [500 + name]}, begun=begun, finished=[f"r{name - 1}"] if name else [])
    wait_until(lambda: device.trip.choose(["newer"], [MOST], cheap, 1, decoding=False) == 0)


def test_nothing_is_chosen_while_answers_are_two_steps_late(device):
    """The drafts would not be there, and whatever is verified in their place is rejected."""
    cheap = np.linspace(1.0, 1.3, MOST + 1)
    device.rung.value = 1
    assert device.trip.choose(["new"], [MOST], cheap, 1, decoding=False) == 1
    device.rung.value = 2
    assert device.trip.choose(["new"], [MOST], cheap, 1, decoding=False) == 0


def test_in_a_small_batch_what_it_had_on_average_counts_too(device):
    """Who looks at the last step alone misses drafts that come after a step without any."""
    device.step(1, {"a": TEXT[:3]}, begun=[("a", TEXT)])
    costs = np.linspace(1.0, 1.2, MOST + 1)
    chosen = []
    for number in range(2, 150):
        token = (500 + number, 7, 8)[number % 3]  # 7 is always followed by 8, which is followed by something new
        device.step(number, {"a": [token]})
        chosen.append(device.trip.choose(["a"], [MOST], costs, 1))
    assert min(chosen[90:]) > 0


def test_one_number_of_planned_drafts_for_each_request(device):
    with pytest.raises(ValueError, match="one number of planned drafts"):
        device.trip.choose(["a", "b"], [1], FLAT, 2)


def test_a_host_that_is_slower_than_its_device_is_known_by_its_steps(device):
    """It announces a step just before the device rings, so the time between the two says nothing of a step's."""
    device.step(1, {"a": TEXT[:1]}, begun=[("a", TEXT)])
    for number in range(2, 100):
        time.sleep(0.015)
        device.step(number, {"a": [TEXT[number % 30]]})
    wait_until(lambda: device.trip.counts().steps == 99)
    assert device.trip.counts().step_us > 14_000


def seen(device, plain_s, verifying_s, steps=60):
    """Steps of a request without drafts and, in between, with one that is not accepted."""
    device.step(1, {"a": [7]}, begun=[("a", list(range(300, 340)))])
    for number in range(2, steps):
        verified = number % 2
        time.sleep(verifying_s if verified else plain_s)
        device.trip.choose(["a"], [MOST], CHEAP, 1)
        device.step(number, {"a": [500 + number]}, rejected=verified)
    wait_until(lambda: device.trip.counts().steps == steps - 1)


CHEAP = np.linspace(10.0, 10.5, MOST + 1)


@pytest.mark.parametrize(("plain_s", "verifying_s", "some"), [(0.012, 0.003, True), (0.003, 0.012, False)])
def test_what_steps_with_drafts_were_seen_to_take_is_believed(plain_s, verifying_s, some):
    """The engine's table says that a draft costs a hundredth; on a slow host it may be another step's time."""
    assert any(believes(plain_s, verifying_s) == some for _ in range(3)), (
        "a busy machine's steps take any time, but thrice?"
    )


def believes(plain_s, verifying_s):
    """Whether a device of such steps verifies drafts that seem cheap."""
    device = Device()
    try:
        seen(device, plain_s, verifying_s)
        return device.trip.choose(["new"], [MOST], CHEAP, 1) > 0
    finally:
        device.trip.close()


def test_without_steps_to_compare_with_a_small_gain_is_not_tried(device):
    assert device.trip.choose(["new"], [MOST], CHEAP, 1) == 0
    chosen = [device.trip.choose(["new"], [MOST], CHEAP, 1) for _ in range(70)]
    assert chosen[0] == 0, "still nothing was seen"
    assert chosen[-1] > 0, "not for ever"
    assert device.trip.choose(["new"], [MOST], CHEAP, 1, decoding=False) > 0


def test_about_as_many_rows_are_steps_to_compare_with(wide_device):
    """A batch whose requests end one by one has each number of them for a few steps only."""
    device = wide_device
    names = [f"r{row}" for row in range(17)]
    begun = [(name, list(range(20 * at, 20 * at + 20))) for at, name in enumerate(names)]
    costs = {rows: np.linspace(10.0, 10.5, rows * MOST + 1) for rows in (16, 17, 24)}

    def chosen(rows):
        return device.trip.choose([f"new{at}" for at in range(rows)], [MOST] * rows, costs[rows], rows)

    device.step_s = 0.004
    for number in range(1, 60):  # a busy machine's steps are not all timed
        chosen(17)
        device.step(number, {name: [500 + number % 400] for name in names}, begun=begun if number == 1 else ())
    wait_until(lambda: device.trip.counts().steps == 59)
    assert chosen(24) == 0, "nothing like it was seen"
    assert chosen(16) > 0


NAMES = [f"r{row}" for row in range(17)]
TEXTS = {name: list(range(20 * at, 20 * at + 20)) for at, name in enumerate(NAMES)}
"""More requests than a small batch has, each of which says its text again and again."""
PRICES = {
    "dear": 10.0 * np.arange(1, len(NAMES) * MOST + 2),
    "fair": np.linspace(10.0, 60.0, len(NAMES) * MOST + 1),
    "cheap": np.linspace(10.0, 10.5, len(NAMES) * MOST + 1),
}


@pytest.fixture
def promising(tmp_path):
    """What runs a device until drafts are promised to all its requests, or to none, and at least for some steps."""
    promises = Promises(str(tmp_path), "0")
    device = Device(promises=ctypes.addressof(ctypes.c_char.from_buffer(promises.memory)), rows=24)
    numbers = itertools.count(1)

    def run(price, *, until, steps=0, wanted=True, step_s=0.002):
        device.step_s, begun_at = step_s, next(numbers)
        for number in itertools.chain([begun_at], numbers):
            if wanted:
                device.trip.choose(NAMES, [MOST] * len(NAMES), PRICES[price], len(NAMES))
            begun = list(TEXTS.items()) if number == 1 else ()
            device.step(number, {name: [TEXTS[name][number % 20]] for name in NAMES}, begun=begun, wanted=wanted)
            if number - begun_at >= steps and {promises.of(name) for name in NAMES} == {until}:
                return
            assert number < begun_at + MOST_STEPS, f"{until} is not promised"

    yield run
    device.trip.close()


ALL, NONE, MOST_STEPS = 1 + MOST, 0, 500
"""Steps are few on a quiet machine; on a busy one many come late, and are not timed."""


def test_no_drafts_are_planned_for_a_large_batch_that_would_verify_none(promising):
    """Planning alone costs a large batch's host time; what drafts would be worth is known without it."""
    promising("dear", until=NONE, steps=10)
    promising("dear", until=NONE, steps=20, wanted=False)
    promising("cheap", until=ALL)


def test_steps_to_compare_with_have_no_planned_drafts(promising):
    """Those that have cost the host more than plain ones do."""
    promising("fair", until=NONE)
    promising("fair", until=ALL, wanted=False)


def test_what_planning_was_seen_to_cost_is_weighed(promising):
    """On a slow host steps with planned drafts are longer though they verify none: a small gain is not worth that."""
    promising("fair", until=NONE)
    promising("fair", until=ALL, steps=80, wanted=False)
    promising("fair", until=NONE, steps=40, step_s=0.008)


def test_requests_whose_prompts_are_read_gain_nothing_without_drafts(device):
    """A draft is worth more beside them: without it the step would emit less."""
    costs = np.linspace(1.0, 1.3, MOST + 1)
    costs[1:] += 0.04
    assert device.trip.choose(["new", "reads"], [MOST, 0], costs, 2, decoding=False) == 0
    assert device.trip.choose(["new", "reads"], [MOST, 0], costs, 1, decoding=False) == 1
