"""Runs inside the serving image: how many drafts our scheduler plans for the next step, and whether the drafter drafts.

Usage: plan_exactly.py     Prints the cases that differ as a line of JSON.
"""

import json
from types import SimpleNamespace

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from windlass.engine.lookahead.draft_budgets import UNKNOWN
from windlass.engine.lookahead.scheduler import LookaheadScheduler

MOST, ROOM = 6, 100
# Draft budget of each row, tokens of the step, whether drafts may be of any length: planned drafts, and wanted ones; as
# many as the engine allows a row of this step, unless all.
CASES = [
    ([0, 0], 2, True, [0, 0], 0),
    ([UNKNOWN, 0], 2, True, [MOST, 0], MOST),
    ([1, 7], 2, True, [MOST, MOST], MOST),
    ([1, 3, 7, 0, UNKNOWN], 90, True, [0, 2, 6, 0, MOST], MOST),
    ([1, 3, 7, 0, UNKNOWN], 90, False, [MOST, MOST, MOST, 0, MOST], MOST),
    ([1, 0], 100, True, [0, 0], 0),
    ([0, 0], 100, True, [0, 0], 0),
    ([1, 7, 0], 2, True, [2, 2, 0], 2, 2),
    ([2, 7, 0], 100, True, [1, 2, 0], 2, 2),
]


def place(scheduler, step):
    """As the engine's own part does."""
    for name in step.num_scheduled_tokens:
        scheduler.requests[name].spec_token_ids = [-1] * step.num_spec_tokens_to_schedule


def planned(budgets, tokens, takes_any_length, allowed=MOST):
    """Of each row, and the drafter's number."""
    ours = LookaheadScheduler.__new__(LookaheadScheduler)
    ours._budgets = SimpleNamespace(of=lambda names: tuple(budgets[int(name)] for name in names))
    ours._takes_any_length, ours.num_spec_tokens, ours.max_num_scheduled_tokens = takes_any_length, MOST, ROOM
    names = [str(row) for row in range(len(budgets))]
    ours.requests = {name: SimpleNamespace(spec_token_ids=[]) for name in names}
    step = SimpleNamespace(
        num_scheduled_tokens=dict.fromkeys(names, 1),
        total_num_scheduled_tokens=tokens,
        num_spec_tokens_to_schedule=allowed,
    )
    ours._update_after_schedule(step)
    return [len(ours.requests[name].spec_token_ids) for name in names], step.num_spec_tokens_to_schedule


if __name__ == "__main__":
    AsyncScheduler._update_after_schedule = place
    wrong = [case for case in CASES if planned(*case[:3], *case[5:]) != (case[3], case[4])]
    print("RESULT " + json.dumps({"wrong": wrong}))
