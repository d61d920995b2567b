"""The tables of a whole benchmark: every measurement, and a row for each server and load against the first server."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.bench.comparing.ratio import Ratio, Verdict
from windlass.bench.comparing.series import METRICS, Run, compare
from windlass.bench.running import predicted
from windlass.bench.running.benchmark import Benchmark
from windlass.bench.running.matrix import Arm, Asked
from windlass.bench.running.page import Bar, Figure, Group, as_page
from windlass.bench.running.predicted import Planned, Seen
from windlass.bench.serving import plots
from windlass.bench.serving.record import Record, warnings
from windlass.bench.serving.tables import as_csv, as_text
from windlass.table import plain

MARGIN = 0.02
SHOWN = (
    ("REQ/S", "request_throughput", 2),
    ("OUT TOK/S", "output_throughput", 1),
    ("TTFT P50", "median_ttft_ms", 1),
    ("TTFT P99", "p99_ttft_ms", 1),
    ("TPOT P50", "median_tpot_ms", 2),
    ("ITL P99", "p99_itl_ms", 2),
    ("E2E P50", "median_e2el_ms", 0),
)
"""Columns of the table, in milliseconds unless the heading has another unit."""
SAID = {Verdict.BETTER: "faster", Verdict.WORSE: "slower", Verdict.SAME: "the same", Verdict.OPEN: "not shown"}
THROUGHPUT = "output_throughput"
FIGURES = (
    ("Output throughput (tokens/s)", THROUGHPUT),
    ("Time to first token, median (ms)", "median_ttft_ms"),
    ("Time per output token, median (ms)", "median_tpot_ms"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One server under one load: medians over its rounds, and its output throughput over the first server's."""

    arm: Arm
    asked: Asked
    rounds: int
    medians: dict[str, float]
    hit_rate: float | None
    acceptance: float | None
    ratio: Ratio | None = None
    verdict: Verdict | None = None


def write(benchmark: Benchmark, planned: Planned | None = None) -> list[Record]:
    """Write all tables anew from the results in the folder; return the records. `planned`: what to predict for."""
    records = benchmark.records()
    if not records:
        return records
    found = cells(benchmark, records)
    table = [headings(), *map(row, found)]
    explained, warned = note(benchmark), warned_of(records)
    texts = {
        "summary.csv": as_csv(records),
        "summary.txt": "\n".join(f"{record.point.folder}\n{as_text(record)}" for record in records),
        "table.txt": "\n".join([*plain(table), "", explained, *(f"warning: {one}" for one in warned), ""]),
        "table.csv": _csv(found),
        "report.html": as_page(
            f"Benchmark of {benchmark.model.name}", _groups(benchmark, records), table, [explained], warned
        ),
    }
    if planned and (rows := seen(records, found)):
        texts |= predicted.texts(rows, planned)
    for name, text in texts.items():
        (benchmark.folder / name).write_text(text, encoding="utf-8")
    if plots.can_draw():
        plots.write(benchmark.folder, [_plot(benchmark, found, *figure) for figure in FIGURES])
    return records


def _plot(benchmark: Benchmark, found: Sequence[Cell], title: str, field: str) -> plots.Plot:
    """A line for each server over the loads."""
    known = {(cell.arm.name, cell.asked): cell.medians.get(field) for cell in found}
    lines = {arm.name: [known.get((arm.name, asked)) for asked in benchmark.asked] for arm in benchmark.arms}
    return plots.Plot(f"{field}.png", title, [_load(asked) for asked in benchmark.asked], lines)


def cells(benchmark: Benchmark, records: Sequence[Record]) -> list[Cell]:
    """The rows in the order of the loads, then of the servers."""
    found = []
    for asked in benchmark.asked:
        series = {arm: _of(records, arm, asked) for arm in benchmark.arms}
        for arm, mine in series.items():
            if mine:
                found.append(_cell(arm, asked, mine, series[benchmark.arms[0]]))
    return found


def seen(records: Sequence[Record], found: Sequence[Cell]) -> list[Seen]:
    """The cells whose load can be predicted: as many requests at once as are said, without a rate."""
    rows = []
    for cell in found:
        many, mine = cell.asked.concurrency, _of(records, cell.arm, cell.asked)
        whole = sum(record.completed for record in mine)
        if many and whole and cell.asked.request_rate == "inf":
            tokens = [
                sum(record.number(f"total_{way}_tokens") or 0.0 for record in mine) for way in ("input", "output")
            ]
            rows.append(Seen(cell.arm, many, tokens[0] / whole, tokens[1] / whole, cell.medians))
    return rows


def _of(records: Sequence[Record], arm: Arm, asked: Asked) -> list[Record]:
    start = f"{arm.folder}/{asked.folder}/"
    return [record for record in records if record.point.folder.startswith(start)]


def _cell(arm: Arm, asked: Asked, mine: Sequence[Record], first: Sequence[Record]) -> Cell:
    known = {
        metric.field: [value for record in mine if (value := record.number(metric.field)) is not None]
        for metric in METRICS
    }
    medians = {field: statistics.median(values) for field, values in known.items() if values}
    counted = [record.counted for record in mine if record.counted is not None]
    rates = [one.hit_rate for one in counted if one.hit_rate is not None]
    accepted = [one.acceptance for one in counted if one.acceptance is not None]
    cell = Cell(
        arm,
        asked,
        len(mine),
        medians,
        statistics.median(rates) if rates else None,
        statistics.median(accepted) if accepted else None,
    )
    if not first or first[0].load.name == arm.name:
        return cell
    rows = compare(_runs(first), _runs(mine), MARGIN).rows
    row = next((row for row in rows if row.metric.field == THROUGHPUT), None)
    if row is None:
        return cell
    return Cell(arm, asked, len(mine), medians, cell.hit_rate, cell.acceptance, row.ratio, row.verdict)


def _runs(records: Sequence[Record]) -> list[Run]:
    return [Run(record.point.folder.partition("/")[2], record.measured) for record in records]


def headings() -> tuple[str, ...]:
    """The headings of the table."""
    names = [name for name, _, _ in SHOWN]
    return ("SERVER", "AT ONCE", "TEMP", "ROUNDS", *names, "HITS %", "ACCEPTED %", "OF FIRST", "95 %", "VERDICT")


def row(cell: Cell) -> tuple[str, ...]:
    """A line of the table."""
    asked = cell.asked
    many = "-" if asked.concurrency is None else str(asked.concurrency)
    warm = "-" if asked.temperature is None else f"{asked.temperature:g}"
    figures = [_plain(cell.medians.get(field), digits) for _, field, digits in SHOWN]
    shares = [_plain(None if share is None else 100 * share, 1) for share in (cell.hit_rate, cell.acceptance)]
    return (cell.arm.name, many, warm, str(cell.rounds), *figures, *shares, *_against(cell))


def _against(cell: Cell) -> tuple[str, str, str]:
    if cell.ratio is None or cell.verdict is None:
        return ("-", "-", "-")
    span = "-" if cell.ratio.low is None else f"{cell.ratio.low:.3f} to {cell.ratio.high:.3f}"
    return (f"{cell.ratio.middle:.3f}", span, SAID[cell.verdict])


def _plain(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _csv(found: Sequence[Cell]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = [metric.field for metric in METRICS]
    writer.writerow(
        ["server", "concurrency", "temperature", "request_rate", "rounds", *fields, "hit_rate", "acceptance",
         "ratio", "low", "high", "verdict"]
    )  # fmt: skip
    for cell in found:
        asked, ratio = cell.asked, cell.ratio
        values = [cell.medians.get(field) for field in fields]
        against = (None, None, None) if ratio is None else (ratio.middle, ratio.low, ratio.high)
        numbers = [_cut(value) for value in (*values, cell.hit_rate, cell.acceptance, *against)]
        load = [_cut(asked.concurrency), _cut(asked.temperature), asked.request_rate]
        writer.writerow([cell.arm.name, *load, cell.rounds, *numbers, cell.verdict.value if cell.verdict else ""])
    return text.getvalue()


def _cut(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def note(benchmark: Benchmark) -> str:
    """The legend of the table's columns."""
    return (
        "Figures are medians over the rounds, times in milliseconds. OF FIRST is the output throughput over that of "
        f"{benchmark.arms[0].name}: the geometric mean over the rounds, with Student's 95 % interval."
    )


def warned_of(records: Sequence[Record]) -> list[str]:
    """Each warning with the measurements that have it."""
    said: dict[str, list[str]] = {}
    for record in records:
        for sentence in warnings(record):
            said.setdefault(sentence, []).append(record.point.folder)
    return [f"{sentence} ({_where(places)})" for sentence, places in said.items()]


def _where(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def _groups(benchmark: Benchmark, records: Sequence[Record]) -> list[Group]:
    """Up to three charts for each load."""
    found = []
    for asked in benchmark.asked:
        figures = []
        for title, field in FIGURES:
            bars = [_bar(arm, _of(records, arm, asked), field) for arm in benchmark.arms]
            known = tuple(bar for bar in bars if bar is not None)
            figures += [Figure(title, known)] if known else []
        found += [Group(_load(asked), tuple(figures))] if figures else []
    return found


def _load(asked: Asked) -> str:
    many = "no limit" if asked.concurrency is None else f"{asked.concurrency} at once"
    warm = [] if asked.temperature is None else [f"temperature {asked.temperature:g}"]
    rate = [] if asked.request_rate == "inf" else [f"{asked.request_rate} requests/s"]
    return ", ".join([many, *warm, *rate])


def _bar(arm: Arm, mine: Sequence[Record], field: str) -> Bar | None:
    values = [value for record in mine if (value := record.number(field)) is not None]
    return Bar(arm.name, statistics.median(values), min(values), max(values)) if values else None
