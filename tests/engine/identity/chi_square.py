"""Whether two samples are of one distribution: Pearson's chi-square test of homogeneity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

RARE = 20


def p_value(one: Sequence[Hashable], two: Sequence[Hashable]) -> float:
    """Of two samples being of one distribution; what is rare in both together counts as one."""
    first, second = Counter(one), Counter(two)
    often = [value for value in first | second if first[value] + second[value] >= RARE]
    pairs = [(first[value], second[value]) for value in often]
    pairs.append((len(one) - sum(a for a, _ in pairs), len(two) - sum(b for _, b in pairs)))
    pairs = [pair for pair in pairs if sum(pair)]
    if len(pairs) < 2:
        return 1.0
    share = len(one) / (len(one) + len(two))
    statistic = sum((a - (a + b) * share) ** 2 / ((a + b) * share * (1 - share)) for a, b in pairs)
    return _upper_gamma((len(pairs) - 1) / 2, statistic / 2)


def _upper_gamma(shape: float, at: float) -> float:
    """The regularized upper incomplete gamma function."""
    import torch  # slow to import, and needed once

    values = (torch.tensor(value, dtype=torch.float64) for value in (shape, at))
    return float(torch.special.gammaincc(*values))
