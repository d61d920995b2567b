"""The table of results/README.md from what `on_device.py` wrote, and which aims it meets.

    python device_table.py results/h200-2026-11-23-fourteenth.json.gz [results/h200-2026-11-22-seventh.json] [-o json]

Everything is computed from the pairs, so that files with another bound read alike. Needs no engine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from on_device import FIRST, upper_of_median

BATCHES = (1, 10, 64)
UPPER_MOST = 1.01
EMPTY = "not run"


@dataclass(frozen=True, slots=True)
class Row:
    """One workload at one batch; times as fast is the median of the pairs' own ratios."""

    workload: str
    batch: int
    pairs: int
    none_ms: float
    lookahead_ms: float
    times_as_fast: float
    accepted_per_step: float
    ratio_upper: float
    coverage: float

    @property
    def place(self) -> tuple[str, int]:
        """What it is compared by."""
        return self.workload, self.batch

    @property
    def longer_percent(self) -> float:
        """The upper bound of how much longer it takes."""
        return 100 * (self.ratio_upper - 1)


Table = dict[tuple[str, int], Row]


@dataclass(frozen=True, slots=True)
class Aim:
    """What rows must reach; no workloads are all that were measured."""

    text: str
    workloads: tuple[str, ...]
    batches: tuple[int, ...]
    met: Callable[[Row], bool]
    shown: Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of an aim."""

    aim: str
    met: list[str]
    missed: list[str]
    not_run: list[str]


AIMS = (
    Aim("at least 2× on edits and repeats", ("code-edit-diff", "code-edit-message", "repeats"), BATCHES,
        lambda row: row.times_as_fast >= 2, lambda row: f"{row.times_as_fast:.2f}×"),
    Aim("at least 1.3× on gsm8k warm at 1 and 10", ("gsm8k warm",), (1, 10),
        lambda row: row.times_as_fast >= 1.3, lambda row: f"{row.times_as_fast:.2f}×"),
    Aim("never slower, upper bound 1 %", (), BATCHES,
        lambda row: row.ratio_upper <= UPPER_MOST, lambda row: f"{row.longer_percent:+.1f} %"),
)  # fmt: skip


def row_of(found: dict[str, Any]) -> Row:
    """From what `on_device.measure` says."""
    pairs = found["pairs"]
    ratios = [ours / none for none, ours in pairs]
    none_ms, ours_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    times, accepted = 1 / statistics.median(ratios), found["hit_len_per_iter"]
    place = found["workload"], found["batch"], len(pairs)
    return Row(*place, none_ms, ours_ms, times, accepted, *upper_of_median(ratios))


def rows_of(found: Any) -> Table:  # noqa: ANN401 - a file of any age
    """From a whole file. The oldest have them under `rows`, and some where the cache knew the answers: left out."""
    listed = found["rows"] if isinstance(found, dict) else found
    rows = [row_of(one) for one in listed if not one.get("cache_had_seen_part_of_it")]
    return {row.place: row for row in rows}


def judged(aim: Aim, rows: Table) -> Verdict:
    """Which rows meet it, which miss it, and which are not there."""
    names = aim.workloads or tuple(dict.fromkeys(name for name, _ in rows))
    verdict = Verdict(aim.text, [], [], [])
    for name, batch in ((name, batch) for name in names for batch in aim.batches):
        row = rows.get((name, batch))
        if row is None:
            verdict.not_run.append(f"{name} at {batch}")
        else:
            (verdict.met if aim.met(row) else verdict.missed).append(f"{name} at {batch} {aim.shown(row)}")
    return verdict


def table(rows: Table, earlier: Table) -> list[str]:
    """Markdown, a line for each workload, in the order in which they matter."""
    names = dict.fromkeys(name for name, _ in rows)
    ordered = [*(name for name in FIRST if name in names), *(name for name in names if name not in FIRST)]
    batches = sorted({batch for _, batch in rows})
    heads = [f"{batch} request" if batch == 1 else str(batch) for batch in batches]
    lines = [_line(["workload", *heads]), _line(["---"] * (1 + len(batches)))]
    for name in ordered:
        places = [(name, batch) for batch in batches]
        lines.append(_line([name, *(cell(rows.get(place), earlier.get(place)) for place in places)]))
    return lines


def cell(row: Row | None, earlier: Row | None) -> str:
    """One row's figures, and how fast it was."""
    was = f", was {earlier.times_as_fast:.2f}×" if earlier else ""
    if row is None:
        return EMPTY + was
    times = f"{row.none_ms:.2f} / {row.lookahead_ms:.2f} = **{row.times_as_fast:.2f}×**"
    return f"{times} ({row.accepted_per_step:.2f}; {row.longer_percent:+.1f} %){was}"


def legend(rows: Iterable[Row]) -> str:
    """How many pairs, and how often their bound holds."""
    kinds = sorted({(row.pairs, row.coverage) for row in rows})
    return "; ".join(f"{pairs} pairs: the bound holds in {coverage:.1%}" for pairs, coverage in kinds)


def sentence(verdict: Verdict) -> str:
    """A line of the list of aims."""
    count = len(verdict.met) + len(verdict.missed)
    word = "**missed**" if verdict.missed else "met" if count else EMPTY
    reached = f"{word}, {len(verdict.met)} of {count} reach it" if count else word
    kinds = (("not", verdict.missed), (EMPTY, verdict.not_run))
    parts = [reached, *(f"{kind}: {', '.join(places)}" for kind, places in kinds if places)]
    return f"- {verdict.aim[0].upper()}{verdict.aim[1:]}: {'; '.join(parts)}."


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _read(path: Path) -> Table:
    """What a file holds; argparse reports why it cannot be read."""
    try:
        found = path.read_bytes()
        return rows_of(json.loads(gzip.decompress(found) if path.suffix == ".gz" else found))
    except FileNotFoundError:
        raise argparse.ArgumentTypeError(f"{path} is not there") from None
    except (KeyError, TypeError, ValueError) as why:
        raise argparse.ArgumentTypeError(f"{path} was not written by on_device.py: {why!r}") from why


def main() -> None:
    """The table and the aims, or all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=lambda text: _read(Path(text)), help="written by on_device.py")
    parser.add_argument(
        "earlier", type=lambda text: _read(Path(text)), nargs="?", default={}, help="what it is compared with"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    rows: Table = arguments.result
    verdicts = [judged(aim, rows) for aim in AIMS]
    if arguments.output == "json":
        listed = [
            asdict(row) | {"was_times_as_fast": was.times_as_fast if (was := arguments.earlier.get(place)) else None}
            for place, row in rows.items()
        ]
        print(json.dumps({"rows": listed, "aims": [asdict(verdict) for verdict in verdicts]}, indent=1))
        return
    print("\n".join([*table(rows, arguments.earlier), "", legend(rows.values()), "", *map(sentence, verdicts)]))


if __name__ == "__main__":
    main()
