"""Decisions: the index names each, a superseded one is a line with a link, and a condensed one does not grow again."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs/adr"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
SUPERSEDED = [path for path in RECORDS if "\nStatus: superseded by " in path.read_text()]
# Written in the form context, options, decision, consequences.
CONDENSED = (
    *("0006", "0012", "0013", "0014", "0015", "0018", "0021", "0022", "0023", "0030", "0031", "0032"),
    *("0033", "0038", "0041", "0043", "0047", "0049", "0050", "0051", "0053", "0054", "0055", "0057"),
    *("0061", "0062", "0064", "0070", "0076"),
)
WORDS_MAX = 400


def test_the_index_names_every_decision() -> None:
    """A record without a row is one that nobody finds; a number is taken once."""
    listed = re.findall(r"^\| \[\d+\]\((\d{4}-[\w-]+\.md)\)", (FOLDER / "README.md").read_text(), re.M)
    assert listed == [path.name for path in RECORDS]
    assert len({name[:4] for name in listed}) == len(listed)


@pytest.mark.parametrize("path", SUPERSEDED, ids=lambda path: path.stem)
def test_a_superseded_decision_is_a_line_with_a_link(path: Path) -> None:
    """What it said is in the decision that it links to, and in the history."""
    lines = [line for line in path.read_text().splitlines() if line]
    assert len(lines) == 2
    assert re.fullmatch(r"Status: superseded by \[ADR \d+\]\(\d{4}-[\w-]+\.md\)\.", lines[1])


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_stays_short(path: Path) -> None:
    """At most 400 words; a long table belongs to a page that the decision links to."""
    assert len(path.read_text().split()) <= WORDS_MAX


@pytest.mark.parametrize("number", CONDENSED)
def test_a_condensed_decision_has_four_parts(number: str) -> None:
    """The form context, options, decision, consequences."""
    (path,) = FOLDER.glob(f"{number}-*.md")
    text = path.read_text()
    assert [part for part in ("Context", "Options", "Decision", "Consequences") if f"**{part}.**" not in text] == []
