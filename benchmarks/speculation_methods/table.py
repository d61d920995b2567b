"""The rows of `run.py` as tables, one for each text: `python table.py OUT.jsonl`.

A table has method × (equal answers, ms a token at 1, 10, 64).
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any


def tables(rows: list[dict[str, Any]]) -> str:
    """One for each text that was asked for."""
    texts = dict.fromkeys(one.get("text", "new") for row in rows for one in row.get("speed", ()))
    return "\n\n".join(f"{text} text\n\n{table([_of(row, text) for row in rows])}" for text in texts)


def _of(row: dict[str, Any], text: str) -> dict[str, Any]:
    """The same with the runs of one text."""
    runs = [one for one in row.get("speed", ()) if one.get("text", "new") == text]
    return {**row, "speed": runs} if runs else {"arm": row["arm"], "failed": ""}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown; a cell has the median of an arm's runs, and how many times as fast as without drafts it is."""
    done = {row["arm"]: row for row in rows if "failed" not in row}
    counts = sorted({one["clients"] for row in done.values() for one in row["speed"]})
    head = ["method", "equal answers", *(f"ms a token at {count}" for count in counts), "accepted of drafted"]
    lines = [head, ["---"] * len(head)]
    lines += [
        [name, _equal(row), *(_cell(done, name, count) for count in counts), _accepted(row)]
        for name, row in done.items()
    ]
    lines += [[row["arm"], "did not start", *[""] * len(counts), ""] for row in rows if row["arm"] not in done]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _equal(row: dict[str, Any]) -> str:
    if "equal" not in row:
        return "–"
    if row["equal"]:
        return "yes"
    parts = ", ".join(
        f"{part}: {bad[0]} of {bad[1]} differ" for part, bad in row["unlike"].items() if _differs(part, bad)
    )
    ties = ", ".join(f"{gap:g}" for gap in row["unlike"].get("ties", ()))
    return f"{parts} (the likeliest two {ties} apart)" if ties else parts


def _differs(part: str, cell: object) -> bool:
    return part != "ties" and isinstance(cell, list) and bool(cell[0])


def _median(row: dict[str, Any], count: int) -> float:
    return statistics.median(one["ms a token"] for one in row["speed"] if one["clients"] == count)


def _cell(done: dict[str, dict[str, Any]], name: str, count: int) -> str:
    value = _median(done[name], count)
    if "none" not in done or name == "none":
        return f"{value:.2f}"
    return f"{value:.2f} ({_median(done['none'], count) / value:.2f} ×)"


def _accepted(row: dict[str, Any]) -> str:
    found = [one["accepted of drafted"] for one in row["speed"] if one["accepted of drafted"] is not None]
    return f"{statistics.median(found):.2f}" if found else "–"


if __name__ == "__main__":
    print(tables([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]))
