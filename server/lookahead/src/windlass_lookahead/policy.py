"""The speculation policy: how many drafts to plan, to verify and to wait for. Pure: the caller passes all times.

Its numbers, their units and their origins are in `core/policy_config.h`; docs/explanation/speculation.md tells the
rules.
`RULES` names each rule and the numbers that switch it off, for tests; a server runs all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass_lookahead._core import SpeculationPolicy, policy_defaults

Config = Mapping[str, float]

DEFAULTS: Config = policy_defaults()
"""Every number of the policy by its name."""
NEVER = 2**30
"""Above every count of steps and rows."""
MANY = 1e9
"""Above every multiple that a step's time reaches."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that can be switched off."""

    name: str
    meaning: str
    off: Config
    """The numbers with which it changes no decision."""


RULES = (
    Rule("new-request", "a new request is expected to be drafted for as new ones were of late",
         {"new_request_survival": 0.0, "new_request_weight": 0.0}),
    Rule("kept-expectation", "an expectation fades slowly when a step has no draft", {"expectation_kept": 0.0}),
    Rule("worth-waiting", "only rows whose drafts save more than the batch's wait are awaited and planned",
         {"wait_us": 0.0, "wait_row_us": 0.0}),
    Rule("full-step", "where prompts fill the step, only drafts worth a prompt's place are planned",
         {"tokens_ignored": -1000.0}),
    Rule("planning-worth", "a batch that would verify no draft plans none", {"always_planned_rows": NEVER}),
    Rule("unworthy-steps", "planning ends after several steps in a row, not after one", {"unworthy_steps": 1}),
    Rule("batch-mean", "in a small batch the mean of its earlier steps counts, too", {"mean_rows_max": 0}),
    Rule("plain-steps", "a small gain is tried after steps without drafts were seen", {"sure_gain": 0.0}),
    Rule("late-host", "a step verifies nothing while the drafts are two steps late", {"steps_behind_max": NEVER}),
    Rule("judging", "the time to judge drafts is charged beside the engine's table",
         {"judge_step_us": 0.0, "judge_logit_us": 0.0}),
    Rule("extra-time", "the time that steps with drafts were seen to take beyond the table is charged",
         {"extra_weight": 0.0}),
    Rule("extra-fade", "that extra time fades while no drafts are verified", {"extra_kept": 1.0}),
    Rule("extra-cap", "no step counts for more than its expected time as extra", {"extra_times_max": MANY}),
    Rule("row-groups", "close row counts share their measured times", {"row_groups": NEVER}),
    Rule("outlier-cap", "no plain step counts for more than twice the mean", {"outlier_times": MANY}),
    Rule("planned-baseline", "extra time is counted over steps that had drafts planned", {"baseline_steps_min": MANY}),
    Rule("planning-price", "the time that planning adds is charged", {"planning_weight": 0.0}),
    Rule("planning-trust", "the trust in that price fades while none are planned", {"planning_forgotten": 0.0}),
    Rule("planning-share", "that price is spread over a third of the steps or more", {"verifying_share_min": 0.0}),
)  # fmt: skip


def config(without: Iterable[str] = ()) -> dict[str, float]:
    """The numbers with the named rules off.

    Raises:
        ValueError: no rule has the name.
    """
    by_name = {rule.name: rule for rule in RULES}
    numbers = dict(DEFAULTS)
    for name in without:
        if name not in by_name:
            raise ValueError(f"the speculation policy has no rule {name!r}; it has: {', '.join(by_name)}")
        numbers |= by_name[name].off
    return numbers


def drafts_to_plan(budget: int, most: int, *, is_full: bool) -> int:
    """Drafts that the scheduler plans for a request with this draft budget; a full step plans those worth a place."""
    return min(most, max(0, budget - 1)) if is_full or not budget else most


__all__ = ["DEFAULTS", "RULES", "Config", "Rule", "SpeculationPolicy", "config", "drafts_to_plan"]
