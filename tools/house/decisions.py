"""Decisions: the index names each, a superseded one is a line with a link, and a condensed one does not grow again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from .tree import Offence, Tree

INDEX = "docs/adr/README.md"
ROW = re.compile(r"^\| \[\d+\]\((\d{4}-[\w-]+\.md)\)", re.M)
SUPERSEDED = "Status: superseded by "
LINK = re.compile(r"Status: superseded by \[ADR \d+\]\(\d{4}-[\w-]+\.md\)\.")
WORDS_MAX = 400
PARTS = ("Context", "Options", "Decision", "Consequences")
# Written in the form context, options, decision, consequences.
CONDENSED = (
    *("0006", "0012", "0013", "0014", "0015", "0018", "0021", "0022", "0023", "0030", "0031", "0032"),
    *("0033", "0038", "0041", "0043", "0047", "0049", "0050", "0051", "0053", "0054", "0055", "0057"),
    *("0061", "0062", "0064", "0070", "0076"),
)


def records(tree: Tree) -> list[str]:
    """Return the pages of decisions."""
    return list(tree.matching("docs/adr/[0-9]*.md"))


def index(tree: Tree) -> Iterator[Offence]:
    """The index names each decision once, in order, and a number is taken once."""
    listed, names = ROW.findall(tree.text(INDEX)), [Path(path).name for path in records(tree)]
    for name in [name for name in names if name not in listed]:
        yield Offence(f"docs/adr/{name}", 1, f"has no row in {INDEX}: add one")
    for name in [name for name in listed if name not in names]:
        yield Offence(INDEX, 1, f"has a row of {name}, which is not there: take it out")
    if sorted(set(listed)) != listed:
        yield Offence(INDEX, 1, "has rows out of order or twice: sort them by number")
    for before, name in pairwise(names):
        if before[:4] == name[:4]:
            yield Offence(f"docs/adr/{name}", 1, f"has the number of {before}: take the next free one")


def form(tree: Tree) -> Iterator[Offence]:
    """A decision has at most 400 words; a superseded one is a line with a link; a condensed one has its four parts."""
    for path in records(tree):
        text = tree.text(path)
        lines = [line for line in text.splitlines() if line]
        if (count := len(text.split())) > WORDS_MAX:
            yield Offence(path, 1, f"has {count} words, at most {WORDS_MAX}: move a table to a page and link to it")
        if f"\n{SUPERSEDED}" in text and not (len(lines) == 2 and LINK.fullmatch(lines[1])):
            yield Offence(path, 1, f"is superseded: leave its title and `{SUPERSEDED}[ADR N](file.md).`")
        if Path(path).name[:4] in CONDENSED:
            for part in PARTS:
                if f"**{part}.**" not in text:
                    yield Offence(path, 1, f"has no part **{part}.**: add it")
    for number in CONDENSED:
        if not any(Path(path).name.startswith(f"{number}-") for path in records(tree)):
            yield Offence(INDEX, 1, f"lacks decision {number}: take it out of CONDENSED in tools/house/decisions.py")
