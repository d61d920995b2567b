"""Which requests are split over the ranks, and where the keys and values of their parts go. Pure, numpy alone."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Counts: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

ROWS_EACH_MIN = 128
"""Rows of a prompt for each rank below which every rank computes the whole prompt: the step then takes as long as
reading the weights, and the exchange would only be added. It also leaves no rank without rows, however long the parts
are: a prompt is cut into 2 N parts, and N ranks of 128 rows are more than 2 N (2 N - 1) up to 32 ranks."""


def whole(rows: Counts, is_prefilling: Flags, ranks: int) -> Flags:
    """By request, whether every rank computes all of its rows: a request that decodes, or a short prompt."""
    short: Flags = rows < ranks * ROWS_EACH_MIN
    return ~is_prefilling | short
