"""The host's side of a round trip, with a device that is played here: memory that both see, a ring, an answer."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest
from windlass.lookahead.promises import MANY, Promises
from windlass_lookahead import InputError, LookaheadCache, Options
from windlass_lookahead.round_trip import TOLD, TURNS, Places, RoundTrip

MOST, ROWS = 6, 4
TEXT = list(range(100, 140))


class Device:
    """Tells, rings and waits as a stream does."""

    def __init__(self, patience_ms: int = 5000, promises: int = 0, rows: int = ROWS) -> None:
        self.cache = LookaheadCache(Options(voc_size=1000, eos_token_id=999, min_gain=0.001))
        self.told = np.zeros((TURNS, rows, TOLD + MOST + 1), dtype=np.int32)
        self.tokens = np.zeros((rows, MOST), dtype=np.int64)
        self.confidences = np.full((rows, MOST), 0.5, dtype=np.float32)
        self.rung, self.answered = ctypes.c_uint32(0), ctypes.c_uint32(0)
        places = Places(
            *(part.ctypes.data for part in (self.told, self.tokens, self.confidences)),
            ctypes.addressof(self.rung),
            ctypes.addressof(self.answered),
            promises,
        )
        self.trip = RoundTrip(self.cache, places, rows, MOST, MOST + 1, patience_ms)
        self.lengths: dict[str, int] = {}
        self.step_s = 0.0

    def step(self, number, emitted, begun=(), finished=(), *, rejected=0, wanted=True, missed=False):
        """One step; returns what stands in each row: the drafted tokens. One that is not wanted is not waited for."""
        self.lengths |= {request: len(prompt) for request, prompt in begun}
        self.trip.submit(number, list(finished), list(begun), list(emitted), wanted=wanted)
        told = self.told[number % TURNS]
        for row, (request, tokens) in enumerate(emitted.items()):
            self.lengths[request] += len(tokens)
            step = np.uint32(number).astype(np.int32)
            told[row, :TOLD] = (step, len(tokens), rejected, self.lengths[request], missed)
            told[row, TOLD : TOLD + len(tokens)] = tokens[::-1]
        time.sleep(self.step_s)
        self.rung.value = number
        if wanted:
            self.wait(number)
        return [self.drafted(row) for row in range(len(emitted))]

    def wait(self, number, seconds=5.0):
        deadline = time.monotonic() + seconds
        while self.answered.value != number:
            assert time.monotonic() < deadline, "the stream was not answered"

    def drafted(self, row):
        return [int(token) for token, sure in zip(self.tokens[row], self.confidences[row], strict=True) if sure > 0]


@pytest.fixture
def device():
    device = Device()
    yield device
    device.trip.close()


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
    wait_until(lambda: not device.cache.knows("a"))
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
    device.lengths["a"] += 1  # a token that nobody told of
    first, second = device.step(2, {"a": [TEXT[1]], "b": other[1:3]})
    assert first == []
    assert second == other[3 : 3 + MOST]
    assert device.trip.counts().lost == 1


def test_a_token_outside_the_vocabulary_is_served_without_drafts(device):
    [draft] = device.step(1, {"a": [5]}, begun=[("a", [*TEXT, 1000])])
    assert draft == []
    assert device.trip.counts().lost == 1


def test_no_token_at_all_is_told_to_the_caller(device):
    with pytest.raises(InputError):
        device.trip.submit(1, [], [("a", ["x"])], ["a"])


def test_steps_that_nobody_waits_for_are_heard_all_the_same(device):
    """The device may be several steps ahead; what it is not asked for it does not get."""
    device.step(1, {"a": TEXT[:1]}, begun=[("a", TEXT)])
    before = device.tokens.copy()
    for number in range(2, TURNS):
        device.step(number, {"a": [TEXT[number - 1]]}, wanted=False)
    wait_until(lambda: device.trip.counts().steps == TURNS - 1)
    assert (device.tokens == before).all()
    [draft] = device.step(TURNS, {"a": [TEXT[TURNS - 1]]})
    assert draft == TEXT[TURNS : TURNS + MOST]
    assert device.trip.counts().lost == 0


def test_numbers_wrap(device):
    device.rung.value = device.answered.value = 2**32 - 1
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
    [draft] = device.step(2, {"a": [TEXT[3]]}, rejected=MOST, missed=True)
    found = device.cache.metrics()
    assert (found.hit_len, found.lookahead_len) == (0, 0)
    assert draft == TEXT[4 : 4 + MOST]
    wait_until(lambda: device.trip.counts().missed == 1)


def test_the_watchdog_answers_when_nobody_does():
    """A ring that no step was announced for must not hold the stream."""
    device = Device(patience_ms=60)
    try:
        device.rung.value = 5
        device.wait(5)
        wait_until(lambda: device.trip.counts().released == 1)
        assert not device.confidences.any()
    finally:
        device.trip.close()


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


@pytest.mark.parametrize(("plain_s", "verifying_s", "some"), [(0.020, 0.004, True), (0.004, 0.030, False)])
def test_what_steps_with_drafts_were_seen_to_take_is_believed(device, plain_s, verifying_s, some):
    """The engine's table says that a draft costs a hundredth; on a slow host it may be another step's time."""
    seen(device, plain_s, verifying_s)
    assert (device.trip.choose(["new"], [MOST], CHEAP, 1) > 0) == some


def test_without_steps_to_compare_with_a_small_gain_is_not_tried(device):
    assert device.trip.choose(["new"], [MOST], CHEAP, 1) == 0
    chosen = [device.trip.choose(["new"], [MOST], CHEAP, 1) for _ in range(70)]
    assert chosen[0] == 0, "still nothing was seen"
    assert chosen[-1] > 0, "not for ever"
    assert device.trip.choose(["new"], [MOST], CHEAP, 1, decoding=False) > 0


@pytest.fixture
def wide_device():
    device = Device(rows=24)
    yield device
    device.trip.close()


def test_about_as_many_rows_are_steps_to_compare_with(wide_device):
    """A batch whose requests end one by one has each number of them for a few steps only."""
    device = wide_device
    names = [f"r{row}" for row in range(17)]
    begun = [(name, list(range(20 * at, 20 * at + 20))) for at, name in enumerate(names)]
    costs = {rows: np.linspace(10.0, 10.5, rows * MOST + 1) for rows in (16, 17, 24)}

    def chosen(rows):
        return device.trip.choose([f"new{at}" for at in range(rows)], [MOST] * rows, costs[rows], rows)

    for number in range(1, 30):
        chosen(17)
        device.step(number, {name: [500 + number] for name in names}, begun=begun if number == 1 else ())
        time.sleep(0.004)
    wait_until(lambda: device.trip.counts().steps == 29)
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
    """A device whose promises are read, and what runs it for some steps at a price."""
    promises = Promises(str(tmp_path), "0")
    device = Device(promises=ctypes.addressof(ctypes.c_char.from_buffer(promises.memory)), rows=24)
    device.step_s = 0.002

    def steps(first, last, price, *, wanted=True):
        for number in range(first, last):
            if wanted:
                device.trip.choose(NAMES, [MOST] * len(NAMES), PRICES[price], len(NAMES))
            begun = list(TEXTS.items()) if number == 1 else ()
            device.step(number, {name: [TEXTS[name][number % 20]] for name in NAMES}, begun=begun, wanted=wanted)

    yield promises, steps
    device.trip.close()


def test_no_drafts_are_planned_for_a_large_batch_that_would_verify_none(promising):
    """Planning alone costs a large batch's host time; what drafts would be worth is known without it."""
    promises, steps = promising
    steps(1, 30, "dear")
    wait_until(lambda: not any(promises.of(name) for name in NAMES))
    steps(30, 50, "dear", wanted=False)
    assert not any(promises.of(name) for name in NAMES)
    steps(50, 55, "cheap")
    wait_until(lambda: all(promises.of(name) == 1 + MOST for name in NAMES))


def test_steps_to_compare_with_have_no_planned_drafts(promising):
    """Those that have cost the host more than plain ones do."""
    promises, steps = promising
    steps(1, 5, "fair")
    wait_until(lambda: not any(promises.of(name) for name in NAMES))
    steps(5, 60, "fair", wanted=False)
    wait_until(lambda: all(promises.of(name) == 1 + MOST for name in NAMES))


def test_requests_whose_prompts_are_read_gain_nothing_without_drafts(device):
    """A draft is worth more beside them: without it the step would emit less."""
    costs = np.linspace(1.0, 1.3, MOST + 1)
    costs[1:] += 0.04
    assert device.trip.choose(["new", "reads"], [MOST, 0], costs, 2, decoding=False) == 0
    assert device.trip.choose(["new", "reads"], [MOST, 0], costs, 1, decoding=False) == 1


def wait_until(holds, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_rows_that_expect_nothing_are_followed_after_the_answer(device):
    """A batch whose text never repeats is not waited for, and its rows are known all the same."""
    prompts = {f"r{row}": list(range(row * 200, row * 200 + 20)) for row in range(ROWS)}
    device.step(1, {name: [prompt[-1] + 1] for name, prompt in prompts.items()}, begun=list(prompts.items()))
    for number in range(2, 60):
        device.step(number, {name: [prompt[-1] + number] for name, prompt in prompts.items()})
        time.sleep(0.0005)
    wait_until(lambda: device.trip.counts().steps == 59)
    counts = device.trip.counts()
    assert counts.later > 0
    assert counts.in_time + counts.later == 59 * ROWS
    assert device.cache.metrics().num_iters > 50
