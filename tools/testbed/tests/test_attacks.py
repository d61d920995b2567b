"""The table of `make attack`."""

from __future__ import annotations

import pytest
from windlass_testbed.attacks import ROWS_VARIABLE, Row, read, record, record_at_most, table, with_missing


@pytest.fixture
def rows(tmp_path, monkeypatch):
    file = tmp_path / "rows"
    monkeypatch.setenv(ROWS_VARIABLE, str(file))
    return file


def test_rows_are_read_in_their_order(rows):
    assert record("/x/tests/attack/operator/a.py", "a flood", "none falls", "none", held=True)
    assert not record_at_most("b/c.py", "a probe", 1.0, 1.25, "s")
    assert read(rows) == [
        Row("operator/a.py", "a flood", "none falls", "none", True),
        Row("b/c.py", "a probe", "≤ 1 s", "1.25 s", False),
    ]


def test_no_file_of_rows_has_none(rows):
    assert read(rows) == []


def test_a_row_goes_nowhere_without_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv(ROWS_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    assert record("a/b.py", "a", "b", "c", held=True)
    assert list(tmp_path.iterdir()) == []


def test_an_attack_without_a_row_is_missed():
    """Whatever the others saw."""
    seen = Row("b/c.py", "a probe", "≤ 1 s", "0.5 s", True)
    assert with_missing([seen], ["b/c.py", "a/b.py"]) == [Row("a/b.py", "a/b.py", "leaves a row", "none", False), seen]


def test_a_missed_bound_is_marked():
    text = table([Row("a/b.py", "a probe", "≤ 1 s", "0.5 s", True), Row("a/b.py", "a flood", "none", "two", False)])
    assert text.splitlines() == [
        "attack  | bound | seen",
        "--------|-------|------------",
        "a probe | ≤ 1 s | 0.5 s",
        "a flood | none  | two  MISSED",
    ]
