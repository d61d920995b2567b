"""Rows of what attacks showed, for the one table at the end of `make attack`.

Each attack appends its rows to the file that `WINDLASS_ATTACK_ROWS` names; without the variable a row goes nowhere, so
that the same tests run in `make test`. `tests/attack/table.py` prints the table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROWS_VARIABLE = "WINDLASS_ATTACK_ROWS"
WIDEST = 90
"""Characters that a column is padded to; a longer text pushes the rest of its line."""
HEADINGS = ("attack", "bound", "seen")


@dataclass(frozen=True, slots=True)
class Row:
    """One bound of an attack, and what was seen."""

    file: str
    """The program of the attack, below `tests/attack`."""
    attack: str
    bound: str
    seen: str
    held: bool


def record(file: str, attack: str, bound: str, seen: str, held: bool) -> bool:
    """Append a row; `file` is the attack's `__file__`. Returns whether the bound held."""
    row = Row("/".join(Path(file).parts[-2:]), attack, bound, seen, bool(held))
    if name := os.environ.get(ROWS_VARIABLE):
        with Path(name).open("a") as rows:
            rows.write(json.dumps(asdict(row)) + "\n")
    return row.held


def without_rows(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment of a sample of another attack, which leaves the rows. Pure."""
    return {name: value for name, value in environment.items() if name != ROWS_VARIABLE}


def record_at_most(file: str, attack: str, bound: float, seen: float, unit: str) -> bool:
    """Append a row of a figure that has an upper bound."""
    return record(file, attack, f"≤ {bound:g} {unit}", f"{seen:.3g} {unit}", seen <= bound)


def read(rows: Path) -> list[Row]:
    """Rows in the order in which the attacks left them."""
    return [Row(**json.loads(line)) for line in rows.read_text().splitlines()] if rows.exists() else []


def with_missing(rows: Sequence[Row], expected: Collection[str]) -> list[Row]:
    """Rows by program, and a missed one for each expected program that left none. Pure."""
    found = {row.file for row in rows}
    silent = [Row(file, file, "leaves a row", "none", held=False) for file in expected if file not in found]
    return sorted([*rows, *silent], key=lambda row: row.file)


def table(rows: Sequence[Row]) -> str:
    """Attack, bound and seen, one row a bound. Pure."""
    cells = [HEADINGS, *((row.attack, row.bound, row.seen + ("" if row.held else "  MISSED")) for row in rows)]
    widths = [min(WIDEST, max(len(line[column]) for line in cells)) for column in range(len(HEADINGS))]
    lines = [" | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
    rule = "-|-".join("-" * width for width in widths)
    return "\n".join(line.rstrip() for line in (lines[0], rule, *lines[1:]))
