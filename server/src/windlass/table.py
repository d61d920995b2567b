"""Prints rows: lines and colours on a terminal, plain columns in a pipe or a log."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def show(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to standard output."""
    if sys.stdout.isatty():
        _pretty(headings, rows)
        return
    for line in plain([headings, *rows]):
        print(line)


def plain(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart, nothing behind the last word."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _pretty(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
