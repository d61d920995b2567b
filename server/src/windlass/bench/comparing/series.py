"""Runs that are compared: read from result.json files, grouped by their load, paired by their place. Pure.

A folder is one of `bench serve`, one of a server below `bench run`, or any folder that holds such folders. Two runs are
a pair when they lie at the same place below A and below B.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.bench.comparing.ratio import Ratio, Verdict, ratio, verdict


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of vLLM's result, and whether more of it is better."""

    name: str
    field: str
    more_is_better: bool = False


METRICS = (
    Metric("Request throughput (req/s)", "request_throughput", more_is_better=True),
    Metric("Output token throughput (tok/s)", "output_throughput", more_is_better=True),
    *(
        Metric(f"{said} {name} (ms)", f"{statistic}_{field}_ms")
        for name, field in (("TTFT", "ttft"), ("TPOT", "tpot"), ("ITL", "itl"), ("E2E", "e2el"))
        for said, statistic in (("Mean", "mean"), ("Median", "median"), ("P99", "p99"))
    ),
)
LOAD_FIELDS = ("max_concurrency", "request_rate", "num_prompts", "backend", "temperature")
"""Fields of a result that must be equal for two runs to be a pair; temperature is there when `bench run` says it."""
TOKENS_MAX = 0.02
"""Share by which the tokens of a pair may differ; beyond it the two runs did different work."""


@dataclass(frozen=True, slots=True)
class Run:
    """One result: its path below the folder, and vLLM's fields."""

    place: str
    fields: Mapping[str, object]

    def number(self, field: str) -> float | None:
        """The field as a number; None unless it is finite."""
        value = self.fields.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    @property
    def load(self) -> tuple[str, ...]:
        """The load of the run, as far as the result has it."""
        return tuple(f"{field}={self.fields[field]}" for field in LOAD_FIELDS if self.fields.get(field) is not None)

    @property
    def ended(self) -> str:
        """The local time as vLLM writes it, of equal length, so that text sorts as time does."""
        return str(self.fields.get("date", ""))


@dataclass(frozen=True, slots=True)
class Row:
    """A metric of one load; `a` and `b` are the means of the pairs' figures."""

    load: tuple[str, ...]
    metric: Metric
    a: float
    b: float
    ratio: Ratio
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows of the table, and warnings."""

    rows: tuple[Row, ...]
    warnings: tuple[str, ...]


def compare(a: Sequence[Run], b: Sequence[Run], margin: float) -> Comparison:
    """Every metric of every load that both have."""
    pairs = _pairs(a, b)
    loads = dict.fromkeys(first.load for first, _ in pairs)
    rows = []
    for load in loads:
        of_load = [pair for pair in pairs if pair[0].load == load]
        for metric in METRICS:
            row = _row(load, metric, of_load, margin)
            rows += [row] if row is not None else []
    return Comparison(tuple(rows), tuple(_warnings(a, b, pairs)))


def _pairs(a: Sequence[Run], b: Sequence[Run]) -> list[tuple[Run, Run]]:
    others = {run.place: run for run in b}
    found = [(run, others[run.place]) for run in a if run.place in others]
    return [(first, second) for first, second in found if first.load == second.load]


def _row(load: tuple[str, ...], metric: Metric, pairs: Sequence[tuple[Run, Run]], margin: float) -> Row | None:
    both = [(first.number(metric.field), second.number(metric.field)) for first, second in pairs]
    known = [(first, second) for first, second in both if first is not None and second is not None]
    found = ratio(known)
    if found is None:
        return None
    said = verdict(found, more_is_better=metric.more_is_better, margin=margin)
    a, b = (math.fsum(pair[at] for pair in known) / len(known) for at in (0, 1))
    return Row(load, metric, a, b, found, said)


def _warnings(a: Sequence[Run], b: Sequence[Run], pairs: Sequence[tuple[Run, Run]]) -> list[str]:
    found = []
    alone = len(a) + len(b) - 2 * len(pairs)
    if alone:
        found.append(f"{alone} runs have no run of the same place and load on the other side, and count nowhere")
    if len(pairs) > 1 and _is_apart([first for first, _ in pairs], [second for _, second in pairs]):
        found.append(
            "one side ended before the other began: a drift of the machine would show as a difference. Measure both in "
            "turns, as windlass bench run does"
        )
    if len(pairs) == 1:
        found.append("one pair has no spread, so nothing is shown; measure more rounds")
    unlike = [first.place for first, second in pairs if _differs(first, second, "total_output_tokens")]
    if unlike:
        found.append(
            f"the number of generated tokens differs by more than {TOKENS_MAX:.0%} in {len(unlike)} of {len(pairs)} "
            f"pairs, the first is {unlike[0]}: the two did not do the same work"
        )
    failed = sum(int(run.number("failed") or 0) for pair in pairs for run in pair)
    if failed:
        found.append(f"{failed} requests failed; the figures leave them out")
    return found


def _is_apart(a: Sequence[Run], b: Sequence[Run]) -> bool:
    firsts, seconds = [run.ended for run in a], [run.ended for run in b]
    if not all(firsts) or not all(seconds):
        return False
    return max(firsts) < min(seconds) or max(seconds) < min(firsts)


def _differs(first: Run, second: Run, field: str) -> bool:
    one, two = first.number(field), second.number(field)
    return one is not None and two is not None and abs(one - two) > TOKENS_MAX * max(one, two)
