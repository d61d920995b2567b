"""The engine's batch followed row by row: what belongs to a request stays with it."""

from __future__ import annotations

import numpy as np
import pytest
from windlass.engine.lookahead.rows import Row, Rows, guarded
from windlass_lookahead import InputError, LookaheadCache, Options

K = 6
TEXT = list(range(100, 140))
OTHER = [token + 300 for token in TEXT]


@pytest.fixture
def cache() -> LookaheadCache:
    return LookaheadCache(Options(voc_size=1000, eos_token_id=999, min_gain=0.001))


@pytest.fixture
def rows(cache: LookaheadCache) -> Rows:
    return Rows(cache)


def row(request, prompt, output=(), most=K):
    return Row(request, np.array([*prompt, *output], dtype=np.int32), len(prompt), most)


def test_a_request_is_drafted_from_its_own_prompt(rows):
    assert rows.step([row("a", TEXT, TEXT[:3])], {"a"}) == [TEXT[3 : 3 + K]]


def test_rows_change_places(rows):
    """The engine moves rows when others end; a draft follows its request."""
    rows.step([row("a", TEXT, TEXT[:1]), row("b", OTHER, OTHER[:1])], {"a", "b"})
    drafts = rows.step([row("b", OTHER, OTHER[:3]), row("a", TEXT, TEXT[:3])], {"a", "b"})
    assert drafts == [OTHER[3 : 3 + K], TEXT[3 : 3 + K]]


def test_a_row_of_a_cancelled_request_gives_the_next_one_its_own_drafts(rows, cache):
    rows.step([row("a", TEXT, TEXT[:3])], {"a"})
    assert rows.step([row("b", OTHER, OTHER[:3])], {"b"}) == [OTHER[3 : 3 + K]]
    assert not cache.knows("a")
    assert rows.known == 1


def test_a_preempted_request_goes_on_where_it_was(rows, cache):
    """It is in no row for some steps, lives on, and comes back with all its tokens in one piece."""
    rows.step([row("a", TEXT, TEXT[:2]), row("b", OTHER, OTHER[:1])], {"a", "b"})
    rows.step([row("b", OTHER, OTHER[:2])], {"a", "b"})
    assert cache.knows("a")
    assert rows.step([row("a", TEXT, TEXT[:3])], {"a", "b"}) == [TEXT[3 : 3 + K]]


def test_steps_without_a_proposal_are_made_up_for(rows, cache):
    """Near the end of the context the engine asks nobody: its tokens are noted at the next chance."""
    rows.step([row("a", TEXT, TEXT[:1])], {"a"})
    rows.step([row("a", TEXT, TEXT[:5])], {"a"})
    assert rows.step([row("a", TEXT, TEXT[:6])], {"a"}) == [TEXT[6 : 6 + K]]


def test_a_prompt_that_is_still_read_is_not_drafted(rows, cache):
    assert rows.step([row("a", TEXT[:10], most=0)], {"a"}) == [[]]
    assert not cache.knows("a")
    assert rows.step([row("a", TEXT, TEXT[:3])], {"a"}) == [TEXT[3 : 3 + K]]


def test_tokens_that_the_engine_took_back(rows):
    """A request that is shorter than it was begins anew."""
    rows.step([row("a", TEXT, [7, 8, 9])], {"a"})
    assert rows.step([row("a", TEXT[:20], TEXT[:2])], {"a"}) == [TEXT[2 : 2 + K]]


def test_an_id_that_comes_again_is_another_request(rows):
    rows.step([row("a", TEXT, TEXT[:30])], {"a"})
    rows.step([], set())
    assert rows.step([row("a", OTHER, OTHER[:3])], {"a"}) == [OTHER[3 : 3 + K]]


def test_the_limit_of_a_row_is_kept(rows):
    assert rows.step([row("a", TEXT, TEXT[:3], most=2)], {"a"}) == [TEXT[3:5]]


def test_a_request_that_the_cache_cannot_take_is_served_without(rows, caplog):
    """A token outside the vocabulary, as an image's: logged once, and no other request changes."""
    caplog.set_level("WARNING", logger="windlass.lookahead")
    odd = [*TEXT, 5000]
    for length in (1, 2, 3):
        drafts = rows.step([row("odd", odd, TEXT[:length]), row("a", TEXT, TEXT[:length])], {"odd", "a"})
        assert drafts[0] == []
    assert drafts[1] == TEXT[3 : 3 + K]
    assert rows.known == 1


def test_a_failing_cache_fails_no_step():
    def fail() -> list[list[int]]:
        raise InputError("broken")

    assert guarded(fail, 2) == [[], []]
