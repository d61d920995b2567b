"""Every metric of the operator is in the reference, with its labels and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase
from windlass_operator import metrics

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operator-metrics.md"
ALL = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]


def name_of(metric):
    return metric._name + ("_total" if isinstance(metric, Counter) else "")


@pytest.mark.parametrize("metric", ALL, ids=name_of)
def test_a_metric_is_documented(metric):
    labels = ", ".join(f"`{label}`" for label in metric._labelnames)
    row = f"| `{name_of(metric)}` | {metric._type} | {labels} | {metric._documentation} |"
    assert row in PAGE.read_text().splitlines()


def test_the_page_names_nothing_else():
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `windlass_")]
    assert sorted(rows) == sorted(map(name_of, ALL))
