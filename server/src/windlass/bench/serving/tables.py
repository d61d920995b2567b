"""Records as CSV and as text. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence

from windlass.bench.serving.command import ROUTES
from windlass.bench.serving.counters import Counted
from windlass.bench.serving.record import Record

Value = str | float | int | bool | None
UNKNOWN = ""
LATENCIES = (("E2E", "e2el"), ("TTFT", "ttft"), ("TPOT", "tpot"), ("ITL", "itl"))
"""Names of the columns, and of vLLM's fields."""
STATISTICS = (("Mean", "mean"), ("Median", "median"), ("P99", "p99"))
TITLES = {
    "E2E": "End-to-End Latency",
    "TTFT": "Time to First Token",
    "TPOT": "Time per Output Token (excl. 1st token)",
    "ITL": "Inter-token Latency",
}


def _measured(field: str) -> Callable[[Record], Value]:
    return lambda record: record.number(field)


def _counted(take: Callable[[Counted], Value]) -> Callable[[Record], Value]:
    return lambda record: None if record.counted is None else take(record.counted)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def rate(record: Record) -> str:
    """The requested rate in requests a second."""
    return "inf" if math.isinf(record.load.request_rate) else f"{record.load.request_rate:g}"


COLUMNS: tuple[tuple[str, Callable[[Record], Value]], ...] = (
    ("Name", lambda record: record.load.name),
    ("Backend", lambda record: ROUTES[record.load.api][0]),
    ("Prefix cache", _counted(lambda counted: counted.prefix_cache)),
    ("Cache offload", _counted(lambda counted: counted.offload)),
    ("Hit count", _counted(lambda counted: counted.prefix_queries is not None)),
    ("Lookahead", _counted(lambda counted: counted.lookahead)),
    ("Benchmark duration (s)", _measured("duration")),
    ("Total input tokens", lambda record: _whole(record.number("total_input_tokens"))),
    ("Total generated tokens", lambda record: _whole(record.number("total_output_tokens"))),
    ("Input token throughput (tok/s)", lambda record: record.input_throughput),
    ("Output token throughput (tok/s)", _measured("output_throughput")),
    *(
        (f"{statistic} {name} (ms)", _measured(f"{theirs}_{field}_ms"))
        for name, field in LATENCIES
        for statistic, theirs in STATISTICS
    ),
    ("Maximum concurrency", lambda record: record.point.concurrency),
    ("Request rate (req/s)", rate),
    ("Successful requests", lambda record: record.completed),
    ("Failed requests", lambda record: record.failed),
    ("Request throughput (req/s)", _measured("request_throughput")),
    ("Request goodput (req/s)", _measured("request_goodput")),
    ("Prefix cache hit rate (%)", _counted(lambda counted: _percent(counted.hit_rate))),
    ("Offloaded cache hit rate (%)", _counted(lambda counted: _percent(counted.offload_hit_rate))),
    ("Draft acceptance (%)", _counted(lambda counted: _percent(counted.acceptance))),
    ("Acceptance length", _counted(lambda counted: counted.acceptance_length)),
    ("Seed", lambda record: record.point.seed),
    ("Folder", lambda record: record.point.folder),
)


def cell(value: Value) -> str:
    """A figure in CSV; an unknown one is empty."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def shown(value: str | float) -> str:
    """A figure as text for people."""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def as_csv(records: Sequence[Record]) -> str:
    """The table: a heading and a line for each run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading for heading, _ in COLUMNS)
    writer.writerows([cell(take(record)) for _, take in COLUMNS] for record in records)
    return text.getvalue()


def as_text(record: Record) -> str:
    """The summary of one run; an unknown figure is a dash."""
    lines = [f"{' Serving Benchmark Result ':=^50}", *(_line(title, value) for title, value in _head(record))]
    for name, field in LATENCIES:
        lines.append(f"{TITLES[name]:-^50}")
        lines += [
            _line(f"{statistic} {name} (ms):", record.number(f"{theirs}_{field}_ms"))
            for statistic, theirs in STATISTICS
        ]
    lines.append(f"{'Engine counters':-^50}")
    lines += [_line(title, value) for title, value in _engine(record)]
    return "\n".join([*lines, "=" * 50, ""])


def _line(title: str, value: Value) -> str:
    return f"{title:<40} {'-' if value is None else shown(value)}"


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _head(record: Record) -> list[tuple[str, Value]]:
    return [
        ("Backend:", ROUTES[record.load.api][0]),
        ("Traffic request rate:", rate(record)),
        ("Maximum request concurrency:", record.point.concurrency),
        ("Successful requests:", record.completed),
        ("Failed requests:", record.failed),
        ("Benchmark duration (s):", record.number("duration")),
        ("Total input tokens:", _whole(record.number("total_input_tokens"))),
        ("Total generated tokens:", _whole(record.number("total_output_tokens"))),
        ("Request throughput (req/s):", record.number("request_throughput")),
        ("Request goodput (req/s):", record.number("request_goodput")),
        ("Input token throughput (tok/s):", record.input_throughput),
        ("Output token throughput (tok/s):", record.number("output_throughput")),
    ]


def _engine(record: Record) -> list[tuple[str, Value]]:
    counted = record.counted or Counted()
    return [
        ("Prefix cache hit rate (%):", _percent(counted.hit_rate)),
        ("Offloaded cache hit rate (%):", _percent(counted.offload_hit_rate)),
        ("Draft acceptance (%):", _percent(counted.acceptance)),
        ("Acceptance length:", counted.acceptance_length),
    ]
