"""Tables S and T and the presets of the guides, in both directions: read back from vLLM's own parser, or refused."""

import shlex

import pytest
from windlass.launch import templates
from windlass_sizing.settings.flags import BY_NAME, FLAGS
from windlass_sizing.settings.parse import parse

from .flag_rows import ROWS

COMMANDS = ("serve", "vllm.entrypoints.openai.api_server")
"""The last words of the engine's own commands; those of `run` stand alone."""
UNSAID = ("S25", "S26", "S28")
"""Adapters, groups and weight files are no values of a flag: tests of their own serve them."""


@pytest.fixture(scope="module")
def found(engine):
    return engine.result("/repo/tests/engine/launch/parse_rows.py")


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_a_row(found, number):
    """What is passed is read back; what is refused says why, and ends with exit code 2."""
    row, became = ROWS[number], found[number]
    if row.refused:
        assert became == {"refused": row.refused, "exit_code": 2}
    else:
        assert became.get("reads") == row.reads, became
        assert row.told in "\n".join(became["told"])


def said(row) -> set[str]:
    """The flags of our table that a row says, by flag or by variable."""
    words = tuple(shlex.split(row.line))
    words = words[next((words.index(end) + 1 for end in COMMANDS if end in words), 0) :]
    by_variable = {flag.name for flag in FLAGS if set(flag.variables) & set(row.variables)}
    return set(parse(words).texts) | by_variable


def test_every_flag_has_a_row():
    assert {flag.name for flag in FLAGS} - set().union(*map(said, ROWS)) == set()


def test_every_variable_has_a_row():
    variables = {name for flag in FLAGS for name in flag.variables}
    assert variables - {name for row in ROWS for name in row.variables} == set()


def test_every_other_name_of_a_flag_has_a_row():
    words = {word.lstrip("-").partition("=")[0].replace("_", "-") for row in ROWS for word in shlex.split(row.line)}
    assert {name for flag in FLAGS for name in flag.aliases} - words - {"api-key", "q", "pp"} == set()
    assert {"api-key", "q", "pp"} <= set(BY_NAME)


def test_every_template_has_a_row():
    names = {row.id.removeprefix("T ").partition(",")[0] for row in ROWS if row.id.startswith("T ")}
    assert set(templates.BY_NAME) == names - {"nothing matches", "no such name"}


def test_every_row_of_the_tables_is_there():
    ids = {f"S{number}" for number in range(1, 30)}
    assert ids - {row.id for row in ROWS} == set(UNSAID) - {row.id for row in ROWS}
