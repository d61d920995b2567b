"""The speculation policy where a model drafts beside the cache: what it is worth, and how much it drafts."""

from __future__ import annotations

import pytest

from .test_policy import CHEAP, DEAR, MOST, SURE, a_policy, chosen


def beside_a_model(accepted=(), judged=400):
    """A policy that has seen so many rows of the model's drafts, of which it accepted these numbers in turn."""
    policy = a_policy()
    policy.add_model()
    for number in range(judged if accepted else 0):
        policy.model_judged(MOST, accepted[number % len(accepted)])
    return policy


@pytest.mark.parametrize(
    ("accepted", "tokens"),
    [((), 1.43), ((MOST,), 5.99), ((0,), 0.0), ((0, 1), 0.5), ((3,), 3.0)],
    ids=["before any", "all", "none", "the first of half", "three each"],
)
def test_a_model_is_worth_what_its_drafts_were(accepted, tokens):
    assert beside_a_model(accepted).model_tokens() == pytest.approx(tokens, abs=0.02)


@pytest.mark.parametrize(("rows", "tokens"), [(0, 1.0), (100, 1.38), (400, 2.07), (10_000, 6.0)])
def test_a_place_that_is_not_verified_is_tried_again(rows, tokens):
    """Its drafts were wrong once; those before them are right."""
    policy = beside_a_model((1,))
    for _ in range(rows):
        policy.model_judged(1, 1)
    assert policy.model_tokens() == pytest.approx(tokens, abs=0.03)


@pytest.mark.parametrize(
    ("survivals", "costs", "drafts"),
    [((), CHEAP, MOST), ((), DEAR, 0), ((), [10.0, 10.1, 14.0], 1), (SURE, [10.0, 10.1, 16.0], 1), (SURE, CHEAP, MOST)],
)
def test_a_row_without_better_drafts_has_the_models(survivals, costs, drafts):
    """One policy chooses how many are verified, whosever they are."""
    policy = beside_a_model()
    policy.drafted("a", list(survivals), sum(survivals))
    assert chosen(policy, ["a"], costs) == drafts


def test_a_row_has_as_many_drafts_as_the_model_made():
    """Steps that it had no time for are not planned for more."""
    policy = beside_a_model((3,))
    policy.drafted("a", [0.5], 0.5)
    assert (policy.model_drafts(["a"], 9.0), chosen(policy, ["a"], CHEAP)) == (1, 1)
    assert (policy.model_drafts(["a"], 1.0), chosen(policy, ["a"], CHEAP)) == (MOST, 3)


def test_a_request_that_the_model_drafts_for_is_planned():
    assert (a_policy().draft_budget(0.0), beside_a_model().draft_budget(0.0)) == (0, 4)


def test_a_late_host_leaves_the_models_drafts():
    """They are on the device."""
    policy = beside_a_model((2,))
    policy.drafted("a", SURE, 5.4)
    slope = [10.0, 10.1, 10.2, 20.0, 20.1, 20.2, 20.3]
    assert (chosen(policy, ["a"], slope), chosen(policy, ["a"], slope, behind=2)) == (MOST, 2)


@pytest.mark.parametrize(
    ("accepted", "cached", "model_ms", "drafts"),
    [
        ((3,), {"a": ()}, 2.0, MOST),
        ((3,), {"a": SURE}, 2.0, 0),
        ((3,), {"a": [0.5]}, 9.0, 1),
        ((3,), {"a": SURE, "b": ()}, 1.0, MOST),
        ((3,), {**{f"s{row}": SURE for row in range(20)}, "b": ()}, 2.0, 0),
        ((3,), {"a": ()}, 9.0, 1),
        ((0,), {"a": ()}, 0.5, 0),
        ((3,), {}, 0.0, 0),
    ],
    ids=["alone", "repeats", "hardly", "one of two", "one of many", "slow", "useless", "no rows"],
)
def test_a_model_drafts_on_where_that_saves_more_than_it_takes(accepted, cached, model_ms, drafts):
    """A step takes 5 ms here."""
    policy = beside_a_model(accepted)
    for request, survivals in cached.items():
        policy.drafted(request, list(survivals), sum(survivals))
    assert policy.model_drafts(list(cached), model_ms) == drafts
    assert a_policy().model_drafts(list(cached), model_ms) == 0
