"""Which requests are split over the ranks, and where the keys and values of their parts go. Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from windlass_sizing.placement.sequence import ROWS_EACH_MIN

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Counts: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def whole(rows: Counts, is_prefilling: Flags, ranks: int) -> Flags:
    """By request, whether every rank computes all of its rows: a request that decodes, or a short prompt."""
    short: Flags = rows < ranks * ROWS_EACH_MIN
    return ~is_prefilling | short
