"""docs/reference/features.md is printed from tools/docs/features.yaml: `make golden` or `--write` rewrites it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import yaml

from .tree import Offence, Tree, line_of

PAGE, TABLE = "docs/reference/features.md", "tools/docs/features.yaml"
HEAD = """\
# Features

<!-- Printed from tools/docs/features.yaml: python -m tools.house --write -->

Every capability of Windlass, how it is tested and measured, and its limits. **Done** works as described; **partly**
lacks what the last column says; **missing** does not work.

"""
# The groups of ids, in the order of the page.
GROUPS = {
    "O": "The operator and the resource",
    "M": "The memory formula",
    "S": "The start command",
    "presets": "Short start commands",
    "Q": "Quantization",
    "A": "Lookahead, drafts and caches",
    "V": "API, command line and Python",
    "T": "Chat templates and tool parsers",
    "D": "The DeepSpeed image",
    "L": "Licenses",
    "B": "Benchmarks",
}
SIZES = {"O": 14, "S": 29, "Q": 8, "A": 14, "V": 5, "L": 7}
IDS = {f"{key}{n}" for key, size in SIZES.items() for n in range(1, size + 1)} | (GROUPS.keys() - SIZES.keys())
STATES = ("done", "partly", "missing")


class Row(TypedDict, total=False):
    """One row of the table."""

    id: str
    what: str
    state: str
    code: list[str]
    tests: list[str]
    measured: list[str]
    note: str


def rows(tree: Tree) -> list[Row]:
    """Return the table."""
    found: list[Row] = yaml.safe_load(tree.text(TABLE))
    return found


def page(table: list[Row]) -> str:
    """Return the page."""
    counts = ", ".join(f"{sum(row['state'] == state for row in table)} {state}" for state in STATES)
    parts = [HEAD, f"{len(table)} capabilities: {counts}.\n"]
    for key, title in GROUPS.items():
        parts.append(f"\n## {title}\n\n| capability | state | tests and figures | limits |\n")
        parts.append("| --- | --- | --- | --- |\n")
        parts += [_line(row) for row in table if _group(row) == key]
    return "".join(parts)


def write(tree: Tree) -> None:
    """Write the page."""
    (tree.root / PAGE).write_text(page(rows(tree)), encoding="utf-8")


def current(tree: Tree) -> Iterator[Offence]:
    """The page says what the table says."""
    printed, text = page(rows(tree)).splitlines(), tree.text(PAGE).splitlines()
    if printed != text:
        pairs = enumerate(zip([*printed, ""], [*text, ""], strict=False), 1)
        line = next((number for number, (one, other) in pairs if one != other), len(text))
        yield Offence(PAGE, line, f"is not what {TABLE} says: run `make golden`")


def table(tree: Tree) -> Iterator[Offence]:
    """Each id stands once; paths are there; done work has code and tests, other work says what is missing."""
    text, ids = tree.text(TABLE), [row["id"] for row in rows(tree)]
    for name in sorted({*IDS, *ids}):
        if ids.count(name) != (name in IDS):
            yield Offence(TABLE, 1, f"has {ids.count(name)} rows {name}, not {int(name in IDS)}")
    for row in rows(tree):
        place = line_of(text, f"- id: {row['id']}\n")
        for path in [*row.get("code", []), *row.get("tests", []), *row.get("measured", [])]:
            if not tree.has(path):
                yield Offence(TABLE, place, f"{row['id']} names {path}, which is not there: a file takes its row along")
        if row["state"] == "done" and not (row.get("code") and row.get("tests")):
            yield Offence(TABLE, place, f"{row['id']} is done and lacks code or tests")
        if row["state"] != "done" and not (row["state"] in STATES and row.get("note")):
            yield Offence(TABLE, place, f"{row['id']} is {row['state']}: its note says what is missing")


def _group(row: Row) -> str:
    return row["id"] if row["id"] in GROUPS else row["id"].rstrip("0123456789")


def _name(path: str) -> str:
    return Path(path).parent.name if Path(path).name == "README.md" else Path(path).name


def _linked(key: str, paths: list[str]) -> str:
    return f"{key} " + ", ".join(f"[{_name(path)}]({os.path.relpath(path, Path(PAGE).parent)})" for path in paths)


def _line(row: Row) -> str:
    state = "**missing**" if row["state"] == "missing" else row["state"]
    places = (("tests", row.get("tests")), ("measured", row.get("measured")))
    where = "<br>".join(_linked(key, paths) for key, paths in places if paths)
    return f"| {row['what']} | {state} | {where or '–'} | {row.get('note', '–').strip()} |\n"
