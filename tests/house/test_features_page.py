"""docs/reference/features.md is printed from tools/docs/features.yaml; WINDLASS_GOLDEN=write rewrites it."""

import os
import subprocess
from pathlib import Path
from typing import TypedDict

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/features.md"
TABLE = ROOT / "tools/docs/features.yaml"
HEAD = """\
# Features, row by row

<!-- Printed from tools/docs/features.yaml: WINDLASS_GOLDEN=write pytest tests/house/test_features_page.py -->

Every row of what Windlass must do: where the code is, where it is tested, where it is measured, and what is not there.
**Done** may have a note, **partly** lacks what the note says, **missing** does not work. "Measured" links to figures;
a row without one has tests and no figures.

"""
# The groups of ids, in the order of the page.
GROUPS = {
    "O": "Platform: the operator and the resource",
    "M": "The memory formula",
    "S": "The start command",
    "presets": "The start command's presets",
    "Q": "Quantization",
    "A": "Acceleration",
    "V": "APIs and modes",
    "T": "Chat templates and tool parsers",
    "D": "The DeepSpeed image",
    "L": "License server",
    "B": "Benchmarks",
}
SIZES = {"O": 14, "S": 29, "Q": 8, "A": 14, "V": 5, "L": 7}
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


ROWS: list[Row] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))


def group(row: Row) -> str:
    return row["id"] if row["id"] in GROUPS else row["id"].rstrip("0123456789")


def name(path: str) -> str:
    return Path(path).parent.name if Path(path).name == "README.md" else Path(path).name


def linked(key: str, paths: list[str]) -> str:
    return f"{key} " + ", ".join(f"[{name(path)}]({os.path.relpath(ROOT / path, PAGE.parent)})" for path in paths)


def line(row: Row) -> str:
    state = "**missing**" if row["state"] == "missing" else row["state"]
    places = (("code", row.get("code")), ("tests", row.get("tests")), ("measured", row.get("measured")))
    where = "<br>".join(linked(key, paths) for key, paths in places if paths)
    return f"| {row['id']} | {row['what']} | {state} | {where or '–'} | {row.get('note', '–').strip()} |\n"


def page() -> str:
    counts = ", ".join(f"{sum(row['state'] == state for row in ROWS)} {state}" for state in STATES)
    parts = [HEAD, f"{len(ROWS)} rows: {counts}.\n"]
    for key, title in GROUPS.items():
        parts.append(f"\n## {title}\n\n| row | what | state | where | what is not there |\n")
        parts.append("| --- | --- | --- | --- | --- |\n")
        parts += [line(row) for row in ROWS if group(row) == key]
    return "".join(parts)


def test_the_page_is_current() -> None:
    """The page says what the table says."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert page() == PAGE.read_text(encoding="utf-8")


def test_every_row_has_its_place() -> None:
    """No id is left out, and none is there twice."""
    found = [row["id"] for row in ROWS]
    expected = {f"{key}{n}" for key, size in SIZES.items() for n in range(1, size + 1)} | (GROUPS.keys() - SIZES.keys())
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_every_path_is_there(row: Row) -> None:
    """A file that moves takes its row along."""
    paths = [*row.get("code", []), *row.get("tests", []), *row.get("measured", [])]
    tracked = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kept = tracked.split() if paths else []
    assert [path for path in paths if not any(each == path or each.startswith(f"{path}/") for each in kept)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_row_says_what_it_lacks(row: Row) -> None:
    """Work that is done has code and tests; work that is not says what is missing."""
    if row["state"] == "done":
        assert row["code"] and row["tests"]
    else:
        assert row["state"] in STATES and row["note"]
