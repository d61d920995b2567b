"""How the draft model on the host times its own work, in a simulated time of which each call of the decoder takes some.

Two looks at the clock are around a layer of a piece of text, and around a draft.
"""

from __future__ import annotations

import pytest
from windlass_lookahead._core import DraftModel, SimulatedTime
from windlass_lookahead.draft_model import Settings, read_weights

from .host_engine import DEMO, new_text

ROWS, CALL_US, CHAIN = 8, 100, 4


@pytest.fixture
def time():
    return SimulatedTime()


@pytest.fixture
def model(time):
    return DraftModel(read_weights(DEMO, Settings(rows=ROWS, threads=1)), ROWS, time, CALL_US)


@pytest.mark.parametrize(("budget_us", "layers"), [(0, 1), (250, 1), (550, 2), (1050, 5)])
def test_work_stops_at_its_budget(time, model, budget_us, layers):
    """One layer is done in any case, and none that would end beyond the budget."""
    model.begin("a", new_text(7, 900))
    before_us = time.us
    assert model.work(budget_us)
    assert time.us - before_us == CALL_US * (2 + 2 * layers)


def test_the_time_of_a_draft_is_foretold(model):
    """At first by passes of the start, all of one call here; then by what drafts took: each took a call, too."""
    assert model.draft_ms(0, CHAIN) == model.draft_ms(1, 0) == 0
    assert model.draft_ms(1, 1) == model.draft_ms(64, 1) == pytest.approx(CALL_US / 1000)
    assert model.draft_ms(1, CHAIN) == pytest.approx(CHAIN * CALL_US / 1000)
    model.begin("a", new_text(7, 10))
    for _ in range(100):
        [chain] = model.draft(["a"], CHAIN)
        model.append("a", chain)
    assert model.draft_ms(1, CHAIN) == pytest.approx(CALL_US / 1000, rel=0.01)


def test_what_came_since_a_trial_is_not_foretold_of_the_next_draft(model):
    """A chain of one over one of four shows what the first pass is expected to read; trials read all that came."""
    model.begin("a", new_text(7, 20))
    while model.work(0):
        pass
    before = model.draft_ms(64, 1) / model.draft_ms(64, CHAIN)
    for number in range(5):
        model.append("a", new_text(number, 15))
        assert model.draft(["a"], CHAIN, is_trial=True) != [[]]
    assert model.draft_ms(64, 1) / model.draft_ms(64, CHAIN) == pytest.approx(before)


def test_the_time_of_a_prompts_token_is_learned(time, model):
    """Of whole pieces of 96 tokens."""
    before_us = model.prompt_token_us
    assert before_us == pytest.approx(CALL_US / 64)
    model.begin("a", new_text(7, 980))
    while model.work(0):
        pass
    assert 0 < model.prompt_token_us != before_us
