"""Each rule of the speculation policy and the numbers with which it changes no decision; a server runs all rules."""

from __future__ import annotations

from collections.abc import Iterable

from windlass_lookahead.policy import DEFAULTS, Config

NEVER = 2**30
"""Above every count of steps and rows."""
MANY = 1e9
"""Above every multiple that a step's time reaches."""
RULES: dict[str, Config] = {
    "new-request": {"new_request_survival": 0.0, "new_request_weight": 0.0},
    "kept-expectation": {"expectation_kept": 0.0},
    "worth-waiting": {"wait_us": 0.0, "wait_row_us": 0.0},
    "full-step": {"tokens_ignored": -1000.0},
    "planning-worth": {"always_planned_rows": NEVER},
    "unworthy-steps": {"unworthy_steps": 1},
    "batch-mean": {"mean_rows_max": 0},
    "plain-steps": {"sure_gain": 0.0},
    "late-host": {"steps_behind_max": NEVER},
    "judging": {"judge_step_us": 0.0, "judge_logit_us": 0.0},
    "extra-time": {"extra_weight": 0.0},
    "extra-fade": {"extra_kept": 1.0},
    "extra-cap": {"extra_times_max": MANY},
    "row-groups": {"row_groups": NEVER},
    "outlier-cap": {"outlier_times": MANY},
    "planned-baseline": {"baseline_steps_min": MANY},
    "planning-price": {"planning_weight": 0.0},
    "planning-trust": {"planning_forgotten": 0.0},
    "planning-share": {"verifying_share_min": 0.0},
}


def config(without: Iterable[str] = ()) -> dict[str, float]:
    """The policy's numbers with the named rules off."""
    numbers = dict(DEFAULTS)
    for name in without:
        numbers |= RULES[name]
    return numbers
