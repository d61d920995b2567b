"""A draft model on a processor that is too slow for it, as one with AVX2 alone and few cores, in a simulated time."""

from __future__ import annotations

import random

import pytest

from .conftest import Device

PROMPT = 200
TOKEN_US, PASS_MS, STEP_MS = 5000.0, 20.0, 6.0
"""A model of 0.5B reads a token and drafts one in about these times there; a step of the device is shorter."""
CACHE_WAIT_US = 500
"""Wait of the device for the cache's drafts."""


def a_text(tokens):
    """Tokens without a pattern, so that the cache has next to nothing to draft."""
    chance = random.Random(5)  # noqa: S311 - no secret
    return [chance.randrange(2, 998) for _ in range(tokens)]


@pytest.fixture
def engine(engines):
    """Makes an engine whose prompt the model would read in a second."""

    def make(policy=None, **times):
        text = a_text(20_000)
        words = {"text": text, "texts": [(text[:PROMPT], text[PROMPT:])], "token_us": TOKEN_US, "pass_ms": PASS_MS}
        made = engines(0.7, step_ms=STEP_MS, device=Device(policy=policy), **words | times)
        made.at, made.patience_us = PROMPT, CACHE_WAIT_US
        return made

    return make


def test_it_rests_before_it_has_read_a_prompt(engine):
    """With all text read it could not win either; until then each piece of reading holds up the cache's drafts."""
    slow = engine()
    slow.run(63)
    assert slow.device.trip.counts().rests == 0
    slow.run(1)
    assert slow.device.trip.counts().rests == 1
    assert slow.times.spent_us < PROMPT * TOKEN_US / 2


def test_no_step_waits_for_it(engine):
    """Neither before it rests nor after."""
    slow = engine()
    slow.run(1000)
    counts = slow.device.trip.counts()
    assert (counts.hosted, counts.host_us, counts.models, slow.host_wait_us) == (0, 0, 0, 0)


def test_a_trial_is_paid_for_before_the_next_begins(engine):
    """One takes a second, and more than half a minute goes by until the second trial."""
    slow = engine()
    slow.run(64)
    began_us, spent_us = slow.device.time.us, slow.times.spent_us
    slow.run(400)
    took_us = slow.times.spent_us - spent_us
    assert 128 * TOKEN_US < took_us < 1_200_000
    slow.run(4000)
    assert slow.times.spent_us - spent_us == took_us
    while slow.device.trip.counts().trials == 1:
        slow.run(50)
    assert took_us < 0.03 * (slow.device.time.us - began_us)


@pytest.mark.parametrize("token_us", [TOKEN_US, 1000.0])
def test_it_wakes_when_the_processor_becomes_faster(engine, token_us):
    """As when other work of the machine ends. Chains that it makes in trials show how fast it is by then."""
    slow = engine({"host_trial_share": 0.1}, token_us=token_us, pass_ms=token_us / 200)
    slow.run(300)
    assert (slow.device.trip.counts().rests, slow.device.trip.counts().wakes) == (1, 0)
    slow.times.token_us, slow.times.pass_us = 50, 500
    slow.run(400)
    assert slow.device.trip.counts().wakes == 1
    before = slow.at
    slow.run(200)
    assert slow.device.trip.counts().rests == 1
    assert slow.at - before > 400
