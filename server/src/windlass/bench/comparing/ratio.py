"""The ratio of two series of paired figures: its mean, its 95 % interval and what may be said of it. Pure.

Both figures of a pair are positive, so the logarithm of their ratio is what a drift of the machine moves least. The
interval is Student's, over the pairs' logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

T_95 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
"""Student's t for a two-sided 95 % interval with 1 to 30 degrees of freedom."""
PAIRS_MIN = 2
"""One pair has no spread."""


class Verdict(StrEnum):
    """The verdict on B against A."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    OPEN = "open"
    """The interval holds 1 and reaches beyond the margin: it shows no difference and excludes none."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """B over A; `low` and `high` are None with fewer than two pairs."""

    middle: float
    pairs: int
    low: float | None = None
    high: float | None = None


def t_95(degrees: int) -> float:
    """The quantile; beyond 30 by Cornish and Fisher's series around the normal one, right to four places there."""
    if degrees <= len(T_95):
        return T_95[degrees - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """The geometric mean of B over A and its interval; pairs with a figure that is not positive are left out."""
    logs = [math.log(b / a) for a, b in pairs if a > 0 and b > 0]
    if not logs:
        return None
    middle = statistics.fmean(logs)
    if len(logs) < PAIRS_MIN:
        return Ratio(math.exp(middle), len(logs))
    half = t_95(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(middle), len(logs), math.exp(middle - half), math.exp(middle + half))


def verdict(found: Ratio, *, more_is_better: bool, margin: float) -> Verdict:
    """Better or worse when the whole interval lies on one side of 1; same when it lies within the margin.

    A difference that is shown and lies within the margin counts as the same: nobody asked for it.
    """
    if found.low is None or found.high is None:
        return Verdict.OPEN
    if 1 - margin <= found.low and found.high <= 1 / (1 - margin):
        return Verdict.SAME
    if found.low > 1:
        return Verdict.BETTER if more_is_better else Verdict.WORSE
    if found.high < 1:
        return Verdict.WORSE if more_is_better else Verdict.BETTER
    return Verdict.OPEN
