"""Prints the tables of a run on a card from its JSON files: what answered, the starts, memory planned and measured.

python benchmarks/images_on_card/tables.py out/features.json out/presets.json out/planned.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def asks_table(rows: list[Row]) -> list[str]:
    """A line for each row: its asks and how they ended, and the seconds until it answered."""
    lines = ["| row | asks | ready after s |", "| --- | --- | --- |"]
    for row in rows:
        asks = row.get("asks") or {"start": {"ok": False}}
        told = ", ".join(f"{name} {'yes' if found.get('ok') else 'NO'}" for name, found in asks.items())
        lines.append(f"| {row['row']} | {told} | {row.get('ready_s', '–')} |")
    return lines


def memory(rows: list[Row]) -> list[str]:
    """A line for each planned row: GiB that the plan and the engine name, and by how much they differ."""
    lines = [
        "| row | weights planned | measured | differ | KV cache planned | measured | differ | first start s | second |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        plan, engine = row.get("planned_gib"), row.get("engine") or {}
        if plan and "cache" in plan:
            pairs = [(plan["weights"], engine.get("weightsGiB")), (plan["cache"], engine.get("kvGiB"))]
            cells = [cell for pair in pairs for cell in _cells(*pair)]
            starts = [str(row.get("ready_s", "–")), str(row.get("second_ready_s") or "–")]
            lines.append(f"| {' | '.join([row['row'], *cells, *starts])} |")
    return lines


def _cells(planned: float, measured: float | None) -> list[str]:
    if measured is None or not planned:
        return [f"{planned:.2f}", "–" if measured is None else f"{measured:.2f}", "–"]
    return [f"{planned:.2f}", f"{measured:.2f}", f"{100 * (measured / planned - 1):+.1f} %"]


def main() -> None:
    """Print the tables of every file."""
    for name in sys.argv[1:]:
        document = json.loads(Path(name).read_text())
        rows: list[Row] = document["rows"]
        print(f"### {Path(name).stem}, {document['card']}\n")
        print("\n".join(asks_table(rows)), end="\n\n")
        if any("cache" in (row.get("planned_gib") or {}) for row in rows):
            print("\n".join(memory(rows)), end="\n\n")


if __name__ == "__main__":
    main()
