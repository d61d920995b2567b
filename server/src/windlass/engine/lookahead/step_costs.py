"""Milliseconds of a step by the number of drafts that it verifies, from the engine's cost tables. Pure.

Imports no engine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from windlass_lookahead.policy import DEFAULTS, Config

Costs = NDArray[np.float64]


def judging_ms(vocabulary: int, most_logits: int, numbers: Config = DEFAULTS) -> Costs:
    """Milliseconds that judging drafts takes with 0, 1, … rows of logits; the engine's tables leave it out."""
    words = vocabulary * np.arange(most_logits + 1)
    return (numbers["judge_step_us"] + numbers["judge_logit_us"] * words) / 1000


def step_costs_ms(verifying_ms: Costs, drafting_ms: float, judging: Costs, plain: int, limit: int, first: int) -> Costs:
    """Milliseconds of a step of `plain` tokens with 0, 1, … `limit` drafts; `first` logits come with the first draft.

    `verifying_ms` is the engine's table by tokens, `drafting_ms` its figure for drafting.
    """
    costs = verifying_ms[plain : plain + limit + 1] + drafting_ms
    costs[1:] += judging[first : first + limit]
    return costs
