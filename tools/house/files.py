"""Rules of all files: their length, name and size, the locks, the Makefile, and lines that a merge left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .tree import Offence, Tree

LINES_MAX = 400
VAGUE = {"utils", "helpers", "common", "misc"}
INDEX = re.compile(r"https?://|--index|--find-links")
TARGET = re.compile(r"^([a-z-]+):(.*)$")
SIDE = re.compile(rb"^(?:" + b"<" * 7 + b"|" + b">" * 7 + b") ", re.M)
"""A line that git's merge writes, spelt so that this file does not fit it."""
GUIDE = "CONTRIBUTING.md"
WEIGHTS = "models/demo/model.safetensors"
WEIGHTS_BYTES_MAX, TREE_BYTES_MAX = 16_000_000, 32_000_000


def length(tree: Tree) -> Iterator[Offence]:
    """A file of Python or Go has at most 400 lines."""
    for path in tree.matching("*.py", "*.go"):
        lines = len(tree.text(path).splitlines())
        if lines > LINES_MAX:
            yield Offence(path, LINES_MAX + 1, f"has {lines} lines, at most {LINES_MAX}: split it by idea")


def names(tree: Tree) -> Iterator[Offence]:
    """A module's name says its idea."""
    for path in tree.matching("*.py"):
        if Path(path).stem in VAGUE:
            yield Offence(path, 1, "has a name that says nothing: name the idea")


def rooms(tree: Tree) -> Iterator[Offence]:
    """A folder at the top has a README and is in CONTRIBUTING's table of folders."""
    table = tree.text(GUIDE).partition("\n## The folders\n")[2].partition("\n## ")[0]
    paths = (Path(path) for path in tree.paths if not path.startswith("."))
    for folder in sorted({path.parts[0] for path in paths if len(path.parts) > 1}):
        if not tree.has(f"{folder}/README.md"):
            yield Offence(folder, 1, "has no README.md: say in ten lines what may go in")
        if f"`{folder}`" not in table:
            yield Offence(
                folder, 1, f"is not in the table of folders of {GUIDE}: name it there, or put it into another"
            )


def locks(tree: Tree) -> Iterator[Offence]:
    """A lock names no index, so that each machine takes its own."""
    for path in tree.matching("*requirements.lock"):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if INDEX.search(line):
                yield Offence(path, number, "names an index: write it by `make lock`")


def targets(tree: Tree) -> Iterator[Offence]:
    """Each target of the Makefile is in `make help`."""
    for number, line in enumerate(tree.text("Makefile").splitlines(), 1):
        if (found := TARGET.match(line)) and "## " not in found[2]:
            yield Offence("Makefile", number, f"{found[1]} has no description: end the line with `## what it does`")


def dropped_files(tree: Tree) -> Iterator[Offence]:
    """No line of the Makefile gives pytest a file and a folder around it: pytest drops the file without a word."""
    for number, line in enumerate(tree.text("Makefile").splitlines(), 1):
        words = re.findall(r"[\w./-]*tests/[\w./-]+", line) if "pytest" in line else []
        for word in words:
            if any(word.startswith(f"{other}/") for other in words):
                yield Offence("Makefile", number, f"gives pytest {word} and a folder around it: use python_files")


def merges(tree: Tree) -> Iterator[Offence]:
    """No text holds both sides of a merge."""
    for path in tree.paths:
        content = tree.content(path)
        for found in SIDE.finditer(content):
            yield Offence(path, content.count(b"\n", 0, found.start()) + 1, "is a mark of a merge: take one side out")


def size(tree: Tree) -> Iterator[Offence]:
    """The tree is small: at most 16 MB of weights, and under 32 MB in all."""
    sizes = {path: (tree.root / path).lstat().st_size for path in tree.paths if path not in tree.edited}
    sizes |= {path: len(text.encode()) for path, text in tree.edited.items()}
    if sizes.get(WEIGHTS, 0) >= WEIGHTS_BYTES_MAX:
        yield Offence(WEIGHTS, 1, f"has {sizes[WEIGHTS]} bytes, under {WEIGHTS_BYTES_MAX}: train a smaller model")
    if (whole := sum(sizes.values())) >= TREE_BYTES_MAX:
        largest = max(sizes, key=lambda path: sizes[path])
        yield Offence(largest, 1, f"is the largest of a tree of {whole} bytes, under {TREE_BYTES_MAX}: take data out")
