"""A comparison as text, CSV and JSON. Pure."""

from __future__ import annotations

import csv
import io
import json

from windlass.bench.comparing.ratio import Verdict
from windlass.bench.comparing.series import Comparison, Row

HEADINGS = ("LOAD", "FIGURE", "A", "B", "B/A", "95 %", "PAIRS", "VERDICT")
SAID = {
    Verdict.BETTER: "B is better",
    Verdict.WORSE: "B is worse",
    Verdict.SAME: "the same",
    Verdict.OPEN: "not shown",
}


def load(row: Row) -> str:
    """The load as text for people, without the settings that all rows share."""
    words = dict(word.split("=", 1) for word in row.load)
    many = words.get("max_concurrency")
    parts = [f"{many} at once" if many else "no limit"]
    if words.get("request_rate", "inf") != "inf":
        parts.append(f"{words['request_rate']}/s")
    if "temperature" in words:
        parts.append(f"T={words['temperature']}")
    return ", ".join(parts)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table."""
    found = row.ratio
    span = "-" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
    figures = (f"{row.a:.2f}", f"{row.b:.2f}", f"{found.middle:.3f}", span, str(found.pairs))
    return (load(row), row.metric.name, *figures, SAID[row.verdict])


def as_csv(comparison: Comparison) -> str:
    """The table: a heading and a line for each figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["Load", "Figure", "A", "B", "Ratio", "Low", "High", "Pairs", "Verdict"])
    for row in comparison.rows:
        found = row.ratio
        span = ["" if value is None else f"{value:.6g}" for value in (found.low, found.high)]
        figures = [f"{row.a:.6g}", f"{row.b:.6g}", f"{found.middle:.6g}", *span]
        writer.writerow([load(row), row.metric.name, *figures, found.pairs, row.verdict.value])
    return text.getvalue()


def as_json(comparison: Comparison) -> str:
    """Rows with everything that was computed, and the warnings."""
    rows = [
        {
            "load": dict(word.split("=", 1) for word in row.load),
            "field": row.metric.field,
            "a": row.a,
            "b": row.b,
            "ratio": row.ratio.middle,
            "low": row.ratio.low,
            "high": row.ratio.high,
            "pairs": row.ratio.pairs,
            "verdict": row.verdict.value,
        }
        for row in comparison.rows
    ]
    return json.dumps({"rows": rows, "warnings": comparison.warnings}, indent=1) + "\n"
