"""docs/reference/metrics.md is printed from what each program exports; WINDLASS_GOLDEN=write rewrites it."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as PrometheusCounter
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families
from windlass.api import pages
from windlass.engine.lookahead import plugin
from windlass.front.limits.limiter import Limiter
from windlass.front.limits.replicas import Replicas
from windlass.front.processes import numbers
from windlass.front.usage.account import Accounts, Record
from windlass.front.usage.journal import Journals
from windlass.front.usage.read import Tokens
from windlass.supervisor import metrics as start
from windlass_deepspeed.metrics import Metrics as DeepSpeedMetrics
from windlass_license.http.metrics import Metrics as LicenseMetrics
from windlass_license.service import Standing
from windlass_operator.runtime import metrics as operator

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"
FILES = Path(__file__).parents[2] / "charts/windlass/files"
ASKING = (FILES / "rules.yaml", *sorted((FILES / "dashboards").glob("*.json")))
MANY = 20
SERIES = re.compile("_(bucket|sum|count)$")
HEAD = """\
# Metrics

<!-- Printed from the programs: WINDLASS_GOLDEN=write pytest tests/contract/test_metrics_page.py -->

Every metric of Windlass' own, in Prometheus' text format. A histogram `x` has the series `x_bucket`, `x_sum` and
`x_count`. The [alerts](alerts.md) and the [dashboards](../how-to/dashboards.md) come with the operator's chart.
"""
TABLE = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
# What each section begins with: who answers, where, and who may ask.
PLACES = {
    "Operator": "Port 9090, `GET /metrics` (`WINDLASS_METRICS_PORT`).",
    "Serving pods: the API": "Port 8501, `GET /windlass/metrics`; a server with `metrics_closed` wants a key. "
    "vLLM's own metrics, named `vllm:…`, stand at `GET /metrics` beside the lookahead cache's.",
    "Serving pods: lookahead cache": "Port 8501, `GET /metrics`, while [lookahead](lookahead.md) is on. "
    "Each engine of the pod has a sample.",
    "Serving pods: the start": "The facts port 8502, `GET /metrics`. It answers before the engine does.",
    "DeepSpeed image": "Port 8501, `GET /metrics`, without a key.",
    "License server": "Port 10080, `GET /metrics`. A stand-by has `windlass_license_active` and "
    "`windlass_license_turned_away_total`, and no other gauge.",
}
FACTS: dict[str, Any] = {
    "phases": [{"phase": "engine", "seconds": 1}],
    "phase": "serving",
    "startup": {"seconds": 1, "preread": {"bytesRead": 1, "bytesTotal": 1, "seconds": 1}},
}
STANDING = Standing(None, 0, 0, datetime(2026, 1, 1, tzinfo=UTC), timedelta())
Row = tuple[str, str, str, str]


def of_object(metric: MetricWrapperBase) -> Row:
    """A metric that the program holds as an object; its labels are known before its first sample."""
    (family,) = metric.describe()
    ending = "_total" if isinstance(metric, PrometheusCounter) else "_info" if family.type == "info" else ""
    return family.name + ending, family.type, shown(metric._labelnames), family.documentation


def of_family(family: Metric) -> Row:
    """A metric that is made at the scrape; its labels are those of its samples, or of the family."""
    labels = {name: None for sample in family.samples for name in sample.labels}
    ending = "_total" if family.type == "counter" else ""
    return (
        family.name + ending,
        family.type,
        shown(labels or getattr(family, "_labelnames", ())),
        family.documentation,
    )


def shown(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def of_registry(registry: CollectorRegistry) -> Iterator[Row]:
    """What a server of its own registry exports."""
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            yield of_object(collector)
        else:
            yield from map(of_family, collector.collect())


def of_text(text: str) -> Iterator[Row]:
    return map(of_family, text_string_to_metric_families(text))


def api() -> str:
    """What a server's front says that has refused one request."""
    accounts = Accounts(Limiter(Replicas((), 0, lambda: ())), Journals(None))
    accounts.add(Record("key", "model", Tokens(), estimated=False))
    over = Counter({(numbers.REFUSED, "400"): 1, (numbers.OVER_LIMIT, "key", "requests"): 1})
    known = numbers.added([over, numbers.usage(accounts.totals)])
    own = pages.metrics(known) + pages.quantization("service", "ifq")
    return (own + pages.usage("service", known)).decode()


def deepspeed() -> CollectorRegistry:
    made = DeepSpeedMetrics()
    made.watch(lambda: 0, lambda: 0)
    return made._registry


def sections(standing: Standing, tmp_path: Path) -> dict[str, list[Row]]:
    """The metrics of every program."""
    found = [value for value in vars(operator).values() if isinstance(value, MetricWrapperBase)]
    return {
        "Operator": [of_object(metric) for metric in found],
        "Serving pods: the API": list(of_text(api())),
        "Serving pods: lookahead cache": [of_family(each) for each in plugin.Collector(tmp_path).collect()],
        "Serving pods: the start": list(of_text(start.render(FACTS))),
        "DeepSpeed image": list(of_registry(deepspeed())),
        "License server": list(of_registry(LicenseMetrics(lambda: standing, {"peer": 1})._registry)),
    }


@pytest.fixture
def found(tmp_path: Path) -> dict[str, list[Row]]:
    """The metrics of every program; the license server is active and has no license."""
    return sections(STANDING, tmp_path)


def page(found: dict[str, list[Row]]) -> str:
    parts = [HEAD]
    for title, rows in found.items():
        parts.append(f"\n## {title}\n\n{PLACES[title]}\n\n{TABLE}")
        parts += [f"| `{name}` | {type_} | {labels} | {meaning} |\n" for name, type_, labels, meaning in sorted(rows)]
    return "".join(parts)


def test_the_page_is_current(found: dict[str, list[Row]]) -> None:
    """A metric that is added to a program is in the docs, or this fails."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page(found))
    assert page(found) == PAGE.read_text()


def test_no_program_has_none(found: dict[str, list[Row]]) -> None:
    """Each section lists something, and every metric says what it is."""
    assert all(found.values())
    assert [row[0] for rows in found.values() for row in rows if not row[3]] == []


def test_every_metric_that_alerts_and_dashboards_ask_for_is_exported(found: dict[str, list[Row]]) -> None:
    """Of ours; a histogram has three series."""
    exported = {name for rows in found.values() for name, *_ in rows}
    queried = {
        name
        for file in ASKING
        for query in expressions(yaml.safe_load(file.read_text()))
        for name in re.findall(r"\bwindlass_\w+", query)
    }
    assert len(queried) >= MANY
    assert {name for name in queried if not exported & {name, SERIES.sub("", name)}} == set()


def expressions(part: Any) -> Iterator[str]:
    """Every `expr` of a document, wherever it stands."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from [value] if key == "expr" else expressions(value)


def test_a_live_license_server_exports_what_the_page_lists(found: dict[str, list[Row]]) -> None:
    """The names on the page are those of the text format."""
    text = LicenseMetrics(lambda: STANDING, {"peer": 1}).text().decode()
    exported = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert {name for name in exported if not name.endswith("_created")} == {row[0] for row in found["License server"]}
