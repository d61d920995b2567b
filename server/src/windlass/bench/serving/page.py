"""Records as one HTML page that asks no network: three charts over the runs, and the table. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from windlass.bench.serving.record import Record, warnings
from windlass.bench.serving.tables import COLUMNS, Value, shown

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 28, 40
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37")
CEILINGS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10)
"""Ends of an axis whose quarters have at most two more digits."""
STEPS = 4
"""Lines across a chart, above zero."""
HEAD = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1f2328; background: #fff }}
.charts {{ display: flex; flex-wrap: wrap; gap: 1.5rem }} figure {{ margin: 0 }} figcaption {{ font-weight: 600 }}
.scroll {{ overflow-x: auto }} table {{ border-collapse: collapse; margin-top: 1.5rem }}
td, th {{ border: 1px solid #d0d7de; padding: .25rem .5rem; text-align: right; white-space: nowrap }}
.warning {{ background: #fff8c5; padding: .5rem }} svg text {{ font-size: 11px; fill: #57606a }}
</style></head><body>
<h1>{title}</h1>
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart over the runs: its title, and a field of vLLM's result a line."""

    title: str
    lines: tuple[tuple[str, str], ...]
    name: str = ""
    """The name of its PNG file."""


CHARTS = (
    Chart("Time to first token (ms)", (("median", "median_ttft_ms"), ("p99", "p99_ttft_ms")), "ttft"),
    Chart("Inter-token latency (ms)", (("median", "median_itl_ms"), ("p99", "p99_itl_ms")), "itl"),
    Chart("Throughput (tokens/s)", (("output", "output_throughput"), ("all", "total_token_throughput")), "throughput"),
)


def as_page(records: Sequence[Record]) -> str:
    """The whole page."""
    title = escape(f"Benchmark of {records[0].load.model}: {records[0].load.name}" if records else "Benchmark")
    said = [
        f'<p class="warning">{escape(record.point.folder)}: {escape(sentence)}.</p>\n'
        for record in records
        for sentence in warnings(record)
    ]
    charts = "".join(_figure(chart, records) for chart in CHARTS)
    parts = [HEAD.format(title=title), *said, f"<div class=charts>\n{charts}</div>\n", _table(records)]
    return f"{''.join(parts)}</body></html>\n"


def ceiling(values: Sequence[float]) -> float:
    """The axis's end: the next of CEILINGS times a power of ten."""
    most = max(values, default=0.0)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in CEILINGS if step * power >= most * (1 - 1e-9))


def _figure(chart: Chart, records: Sequence[Record]) -> str:
    series = [[record.number(field) for record in records] for _, field in chart.lines]
    top = ceiling([value for line in series for value in line if value is not None])
    parts = [_grid(top), *(_tick(place, record, len(records)) for place, record in enumerate(records))]
    for place, ((name, _), values) in enumerate(zip(chart.lines, series, strict=True)):
        parts.append(_line(values, top, COLOURS[place]))
        at = LEFT + 8 + 70 * place
        parts.append(f'<text x="{at}" y="{TOP - 14}" style="fill:{COLOURS[place]}">■ {escape(name)}</text>')
    label = f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 6}" text-anchor="middle">requests at once</text>'
    drawing = "\n".join([*parts, label])
    return (
        f"<figure><figcaption>{escape(chart.title)}</figcaption>\n"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(chart.title)}">\n{drawing}\n</svg></figure>\n'
    )


def across(place: int, many: int) -> float:
    """The horizontal place of a run: runs have equal distances, a single run is in the middle."""
    width = WIDTH - LEFT - RIGHT
    return LEFT + width * (place + 0.5) / many


def _up(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _grid(top: float) -> str:
    lines = []
    for step in range(STEPS + 1):
        value = top * step / STEPS
        y = _up(value, top)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#d8dee4"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    return "\n".join(lines)


def at_once(record: Record) -> str:
    """The label of a run on the axis."""
    return "no limit" if record.point.concurrency is None else str(record.point.concurrency)


def _tick(place: int, record: Record, many: int) -> str:
    name = at_once(record)
    return f'<text x="{across(place, many):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{name}</text>'


def _line(values: Sequence[float | None], top: float, colour: str) -> str:
    """A line with a point for each run; a run without the figure breaks the line."""
    places = [
        None if value is None else (across(place, len(values)), _up(value, top)) for place, value in enumerate(values)
    ]
    path = "".join(
        f"{'M' if not place or places[place - 1] is None else 'L'}{at[0]:.1f} {at[1]:.1f}"
        for place, at in enumerate(places)
        if at is not None
    )
    dots = "".join(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="3" fill="{colour}"/>' for at in places if at)
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}' if path else ""


def _table(records: Sequence[Record]) -> str:
    """Columns and runs as CSV has them, a run a column: there are more figures than runs."""
    rows = []
    for heading, take in COLUMNS:
        cells = "".join(f"<td>{escape(_cell(take(record)))}</td>" for record in records)
        rows.append(f"<tr><th>{escape(heading)}</th>{cells}</tr>")
    return f"<div class=scroll><table>\n{chr(10).join(rows)}\n</table></div>\n"


def _cell(value: Value) -> str:
    return "–" if value is None else shown(value)
