"""Decisions: the index names each page once, and a number that was taken is never taken again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from .tree import Offence, Tree

INDEX = "docs/adr/README.md"
ROW = re.compile(r"^\| \[\d+\]\((\d{4}-[\w-]+\.md)\)", re.M)
LEFT = re.compile(r"^\| (\d+) \| `[\w-]+` \|", re.M)


def records(tree: Tree) -> list[str]:
    """Return the pages of decisions."""
    return list(tree.matching("docs/adr/[0-9]*.md"))


def index(tree: Tree) -> Iterator[Offence]:
    """The index names each decision once, in order, and a number is taken once, also by a page that left."""
    listed, names = ROW.findall(tree.text(INDEX)), [Path(path).name for path in records(tree)]
    left = {f"{int(number):04}" for number in LEFT.findall(tree.text(INDEX))}
    for name in [name for name in names if name not in listed]:
        yield Offence(f"docs/adr/{name}", 1, f"has no row in {INDEX}: add one")
    for name in [name for name in listed if name not in names]:
        yield Offence(INDEX, 1, f"has a row of {name}, which is not there: move it to the decisions that left")
    if sorted(set(listed)) != listed:
        yield Offence(INDEX, 1, "has rows out of order or twice: sort them by number")
    for before, name in pairwise(["", *names]):
        if before[:4] == name[:4] or name[:4] in left:
            taken = before if before[:4] == name[:4] else "a decision that left"
            yield Offence(f"docs/adr/{name}", 1, f"has the number of {taken}: take the next free one")
