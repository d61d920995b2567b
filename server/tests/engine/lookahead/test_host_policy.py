"""The speculation policy where a model on the host's cores drafts: its steps wait for it, so its time is theirs."""

from __future__ import annotations

import numpy as np
import pytest

from .test_policy import MOST, SURE, a_policy, a_step, chosen

FLAT = np.linspace(12.0, 12.6, MOST + 1).tolist()
"""Milliseconds of a large model's step by drafts."""


def with_a_host(*, accepted=(), rows=("a",), step_us=12_000, most=4):
    """A policy that has seen steps of this length and 400 rows of the model's drafts, with these accepted in turn."""
    policy = a_policy()
    policy.add_host_model(most)
    for _ in range(200):
        policy.doorbell(step_us, False, len(rows))
    policy.completed(len(rows), True, True, 0)
    for number in range(400 if accepted else 0):
        policy.model_judged(most, accepted[number % len(accepted)])
    for row in rows:
        policy.drafted(row, [], 0.0)
        policy.host_reads(row, True)
    return policy


def each_ms(ms):
    return lambda _rows, drafts: ms * drafts


@pytest.mark.parametrize(
    ("accepted", "draft_ms", "step_us", "drafts"),
    [((4,), 2.0, 12_000, 4), ((4,), 2.0, 5000, 4), ((0,), 0.1, 12_000, 0), ((1,), 2.0, 12_000, 1),
     ((4,), 12.0, 12_000, 0), ((4,), 13.0, 12_000, 0), ((0, 1), 2.0, 5000, 1), ((0, 0, 1), 2.0, 5000, 0),
     ((4,), 9.5, 12_000, 4), ((4,), 11.0, 60_000, 3), ((), 2.5, 12_000, 2)],
    ids=["large", "small", "useless", "one right", "as long as a step", "longer", "half of a short step",
         "a third of one", "nearly a step", "never more than 40 ms", "before any"],
)  # fmt: skip
def test_as_many_drafts_as_have_the_highest_rate(accepted, draft_ms, step_us, drafts):
    policy = with_a_host(accepted=accepted, step_us=step_us)
    assert policy.host_drafts(["a"], each_ms(draft_ms)) == drafts


def test_rows_that_are_not_read_have_none():
    policy = with_a_host(accepted=(4,))
    policy.host_reads("a", False)
    assert policy.host_drafts(["a"], each_ms(1.0)) == 0
    assert policy.host_would_draft(["a"], ["a"], each_ms(1.0)) == 4
    assert policy.host_would_draft(["a"], [], each_ms(1.0)) == 0


def test_rows_whose_cache_drafts_are_better_keep_them():
    """The model is not asked for rows that repeat, and is for the others where enough of them are there."""
    policy = with_a_host(accepted=(3,), rows=("a", "b"))
    asked = []
    policy.drafted("a", SURE, sum(SURE))
    assert policy.host_drafts(["a", "b"], lambda rows, drafts: asked.append(rows) or drafts * 0.5) == 3
    assert set(asked) == {1}


def test_a_step_waits_for_the_model_only_where_that_is_faster():
    policy = with_a_host(accepted=(4,))
    assert policy.host_drafts(["a"], each_ms(2.0)) == 4
    assert chosen(policy, ["a"], FLAT) == 4
    assert policy.awaits_host()
    assert policy.host_wait_us() == pytest.approx(1.5 * 8000 + 1000)
    policy.host_drafts(["a"], each_ms(30.0))
    assert (chosen(policy, ["a"], FLAT), policy.awaits_host()) == (0, False)


def test_a_wait_ends_where_it_would_be_worth_no_more():
    """Half a token saved of a 12 ms step is worth 6 ms."""
    policy = with_a_host(accepted=(0, 1))
    assert policy.host_drafts(["a"], each_ms(5.0)) == 1
    for _ in range(20):
        chosen(policy, ["a"], FLAT)
        if policy.awaits_host():
            break
        a_step(policy, ["a"], us=12_000)
    assert policy.awaits_host()
    assert policy.host_wait_us() == pytest.approx(6000, rel=0.03)


def test_a_wait_ends_where_the_caches_drafts_would_have_been_faster():
    """By the cache 1.4 tokens in 12 ms: two tokens are worth 17.1 ms, so 5.1 of waiting and not the usual 5.5."""
    policy = with_a_host(accepted=(1,))
    policy.drafted("a", [0.4, *[0.0] * (MOST - 1)], 0.4)
    assert policy.host_drafts(["a"], each_ms(3.0)) == 1
    chosen(policy, ["a"], [12.0] * (MOST + 1))
    assert policy.awaits_host()
    assert policy.host_wait_us() == pytest.approx(5143, rel=0.01)


def test_the_caches_drafts_are_verified_without_the_model_where_they_suffice():
    policy = with_a_host(accepted=(1,))
    policy.host_drafts(["a"], each_ms(2.0))
    policy.drafted("a", SURE, sum(SURE))
    assert (chosen(policy, ["a"], FLAT), policy.awaits_host()) == (MOST, False)


def test_a_request_that_the_model_drafts_for_is_planned_and_no_other():
    """Without the model's drafts a budget is what it was."""
    policy = with_a_host(accepted=(3,))
    assert policy.draft_budget(0.0) == 0
    policy.host_drafts(["a"], each_ms(1.0))
    assert policy.draft_budget(0.0) > 1
    policy.host_drafts(["a"], each_ms(30.0))
    assert policy.draft_budget(0.0) == 0


def test_a_host_that_is_late_verifies_nothing():
    policy = with_a_host(accepted=(4,))
    policy.host_drafts(["a"], each_ms(1.0))
    assert (chosen(policy, ["a"], FLAT, behind=2), policy.awaits_host()) == (0, False)


def test_a_large_batch_counts_what_verifying_takes():
    """By the engine's table: at 20 rows each draft makes the step longer."""
    rows = tuple(f"r{number}" for number in range(20))
    policy = with_a_host(accepted=(4,), rows=rows)
    chosen(policy, rows, np.linspace(12.0, 12.0 + 20 * MOST, 20 * MOST + 1).tolist())
    assert policy.host_drafts(rows, each_ms(1.0)) == 0
    policy = with_a_host(accepted=(4,), rows=rows)
    chosen(policy, rows, np.linspace(12.0, 13.0, 20 * MOST + 1).tolist())
    assert policy.host_drafts(rows, each_ms(1.0)) == 4


@pytest.mark.parametrize("rows", [1, 4, 10])
def test_a_small_batch_is_planned_for_drafts_of_the_host(rows):
    """Nothing comes of the cache; a draft of the model saves more than its 3 ms of a step of 16."""
    ids = [f"r{number}" for number in range(rows)]
    policy = with_a_host(accepted=(1,), rows=ids, step_us=16_000)
    costs, planned, waits = np.linspace(16.0, 16.4, rows * MOST + 1).tolist(), MOST, []
    for _ in range(100):
        chosen(policy, ids, costs, planned=planned)
        waits.append(policy.awaits_host())
        a_step(policy, ids, us=16_000, wanted=planned > 0)
        for name in ids:
            policy.host_reads(name, True)
        policy.host_drafts(ids, each_ms(3.0))
        planned = MOST if policy.draft_budget(0.0) > 0 else 0
    assert waits.count(True) > 75
    assert waits[-1]
