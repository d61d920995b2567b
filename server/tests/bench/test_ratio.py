"""Pairs: the interval against published values, and the verdict of each place that it can have."""

import math
import random

import pytest
from windlass.bench.comparing.ratio import Ratio, Verdict, ratio, t_95, verdict


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (2, 4.3027), (9, 2.2622), (30, 2.0423), (31, 2.0395), (60, 2.0003), (120, 1.9799)],
)
def test_quantiles(degrees: int, quantile: float) -> None:
    """As the tables of Student's distribution have them, beyond our table too."""
    assert t_95(degrees) == pytest.approx(quantile, abs=1e-4)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], None),
        ([(0.0, 1.0)], None),
        ([(2.0, 3.0)], Ratio(1.5, 1)),
        ([(2.0, 3.0), (0.0, 9.0)], Ratio(1.5, 1)),
        ([(1.0, 2.0), (1.0, 2.0)], Ratio(2.0, 2, 2.0, 2.0)),
        # Logarithms -d and d: the deviation is d√2, the half width 12.7062 d.
        ([(1.0, math.exp(-0.01)), (1.0, math.exp(0.01))], Ratio(1.0, 2, math.exp(-0.127062), math.exp(0.127062))),
    ],
)
def test_ratio(pairs: list[tuple[float, float]], expected: Ratio | None) -> None:
    """The geometric mean; one pair has no interval; figures that are not positive make no pair."""
    found = ratio(pairs)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.pairs == expected.pairs
    assert found.middle == pytest.approx(expected.middle)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_the_interval_covers_as_often_as_it_says() -> None:
    """2,000 experiments of five pairs with a drift that both share: the truth lies inside of 95 % of the intervals."""
    chance = random.Random(5)  # noqa: S311 - draws figures, no secret
    inside = 0
    for _ in range(2000):
        pairs = []
        for _ in range(5):
            machine = chance.lognormvariate(0, 0.2)
            pairs.append((machine * chance.lognormvariate(0, 0.02), machine * 1.1 * chance.lognormvariate(0, 0.02)))
        found = ratio(pairs)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 1.1 <= found.high
    assert 0.935 <= inside / 2000 <= 0.965


@pytest.mark.parametrize(
    ("low", "high", "more", "expected"),
    [
        (1.05, 1.10, True, Verdict.BETTER),
        (1.05, 1.10, False, Verdict.WORSE),
        (0.90, 0.95, True, Verdict.WORSE),
        (0.90, 0.95, False, Verdict.BETTER),
        (0.99, 1.01, True, Verdict.SAME),
        (1.001, 1.01, True, Verdict.SAME),
        (1.001, 1.05, True, Verdict.BETTER),
        (0.97, 1.01, True, Verdict.OPEN),
        (0.5, 2.0, False, Verdict.OPEN),
        (None, None, True, Verdict.OPEN),
    ],
)
def test_verdict(low: float | None, high: float | None, more: bool, expected: Verdict) -> None:
    """By the whole interval and the margin of 2 %, never by the middle."""
    assert verdict(Ratio(1.0, 3, low, high), more_is_better=more, margin=0.02) is expected
