"""The rows of `run.py` as tables, one for each text: `python table.py OUT.jsonl [or .jsonl.gz]`.

A table has method × (equal answers, ms a token at 1, 10, 64). A cell is the median of an arm's runs. On new text an arm
with lookahead has its first run alone, since its cache meets recorded answers from the second on. Rows of several
machines name theirs, and each is compared with the arm without drafts of its machine.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from pathlib import Path
from typing import Any

TWO_CARDS = "-tp2"
"""The end of an arm's name."""
PLAIN = ("none", f"none{TWO_CARDS}")
"""Without drafts, on one card and on two."""
Row = dict[str, Any]


def baseline(arm: str) -> str:
    """The arm that it is compared with: without drafts, on as many cards; two cards without drafts with one."""
    one, two = PLAIN
    return two if arm.endswith(TWO_CARDS) and arm != two else one


def tables(rows: list[Row]) -> str:
    """One for each text that was asked for."""
    texts = dict.fromkeys(one.get("text", "new") for row in rows for one in row.get("speed", ()))
    return "\n\n".join(f"{text} text\n\n{table([_of(row, text) for row in rows])}" for text in texts)


def _of(row: Row, text: str) -> Row:
    """The same with the runs of one text that count."""
    runs = [one for one in row.get("speed", ()) if one.get("text", "new") == text]
    if "lookahead" in row["arm"] and text == "new":
        first: dict[int, Row] = {}
        for one in runs:
            first.setdefault(one["clients"], one)
        runs = [*first.values()]
    return {**row, "speed": runs} if runs else {**row, "failed": ""}


def table(rows: list[Row]) -> str:
    """Markdown; a cell has the median of an arm's runs, and how many times as fast as without drafts it is."""
    done = {(row.get("machine", ""), row["arm"]): row for row in rows if "failed" not in row}
    counts = sorted({one["clients"] for row in done.values() for one in row["speed"]})
    head = ["method", "equal answers", *(f"ms a token at {count}" for count in counts), "accepted of drafted"]
    lines = [head, ["---"] * len(head)]
    lines += [
        [" ".join((name, machine)).strip(), _equal(row), *(_cell(done, machine, name, count) for count in counts),
         _accepted(row)]
        for (machine, name), row in done.items()
    ]  # fmt: skip
    missing = [row["arm"] for row in rows if (row.get("machine", ""), row["arm"]) not in done]
    lines += [[name, "did not start", *[""] * len(counts), ""] for name in missing]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _equal(row: Row) -> str:
    if "equal" not in row:
        return "–"
    wrong = {part: bad for part, bad in row["unlike"].items() if _differs(part, bad)}
    parts = ", ".join(f"{part}: {bad[0]} of {bad[1]} differ" for part, bad in wrong.items())
    ties = ", ".join(f"{gap:g}" for gap in row["unlike"].get("ties", ()))
    said = f"{parts} (the likeliest two {ties} apart)" if ties else parts
    return ", but ".join(filter(None, ("yes", said))) if row["equal"] else said


def _differs(part: str, cell: object) -> bool:
    return part != "ties" and isinstance(cell, list) and bool(cell[0])


def _median(row: Row, count: int) -> float:
    return statistics.median(one["ms a token"] for one in row["speed"] if one["clients"] == count)


def _cell(done: dict[tuple[str, str], Row], machine: str, name: str, count: int) -> str:
    value = _median(done[machine, name], count)
    plain = done.get((machine, baseline(name)))
    if plain is None or name in PLAIN:
        return f"{value:.2f}"
    return f"{value:.2f} ({_median(plain, count) / value:.2f} ×)"


def _accepted(row: Row) -> str:
    found = [one["accepted of drafted"] for one in row["speed"] if one["accepted of drafted"] is not None]
    return f"{statistics.median(found):.2f}" if found else "–"


def read(path: Path) -> list[Row]:
    """A file's rows, packed or not."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().splitlines()]


if __name__ == "__main__":
    print(tables(read(Path(sys.argv[1]))))
