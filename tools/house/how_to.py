"""Each command of a how-to says where it runs: in a comment above its block, a test, a make target or a reason.

`run`: a test runs the commands. `instead`: a test does the same by another program, such as a client in Python in the
place of curl. `not run`: nothing does, for a reason. The comment stands in the page's source; the site does not show
it. `tutorials.py` holds the tutorials, whose tables readers do see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .tree import Offence, Tree

FENCE = re.compile(r"^(?P<above>[^\n]*)\n```(?P<kind>\w*)\n(?P<body>.*?)^```", re.M | re.S)
MARK = re.compile(r"<!-- (?P<verdict>run|instead|not run): (?P<where>.+) -->")
NOT_COMMANDS = {"yaml", "json", "python", "promql", "text"}
"""Languages of files that a reader saves, or of output that a program prints."""
ANYWHERE = {"kubectl", "windlass", "helm", "make", "docker", "curl", "python", "tools", "eval", "export"}
"""Programs: their names stand in most tests, so they say nothing of a command."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the line above it."""

    page: str
    line: int
    kind: str
    above: str
    body: str

    @property
    def mark(self) -> re.Match[str] | None:
        """The comment that says where the commands run."""
        return MARK.fullmatch(self.above)

    @property
    def files(self) -> list[str]:
        """The files that the mark names."""
        return re.findall(r"`([\w./-]+\.\w+)`", self.mark["where"]) if self.mark else []

    @property
    def targets(self) -> list[str]:
        """The make targets that the mark names."""
        return re.findall(r"`make ([\w-]+)`", self.mark["where"]) if self.mark else []

    @property
    def commands(self) -> list[str]:
        """The lines with a prompt, each with the lines that go on after a backslash."""
        lines = self.body.replace("\\\n", " ").splitlines()
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def blocks(tree: Tree) -> Iterator[Block]:
    """Yield the blocks of all how-tos."""
    for page in tree.matching("docs/how-to/*.md"):
        text = tree.text(page)
        for found in FENCE.finditer(text):
            line = text.count("\n", 0, found.end("above")) + 2
            yield Block(page, line, found["kind"], found["above"], found["body"])


def kinds(tree: Tree) -> Iterator[Offence]:
    """A block of another kind than console holds a file or an output, so no command hides from the rules."""
    for block in blocks(tree):
        if block.kind not in NOT_COMMANDS | {"console"}:
            yield _offence(block, f"is a block of `{block.kind}`: use console or {', '.join(sorted(NOT_COMMANDS))}")


def marks(tree: Tree) -> Iterator[Offence]:
    """Each console has commands and a mark, whose files and make targets are there."""
    makefile = tree.text("Makefile")
    for block in blocks(tree):
        if block.kind != "console":
            continue
        if not block.commands:
            yield _offence(block, "is a console without a command: begin one with `$ `, or make it text")
        if block.mark is None:
            yield _offence(block, "does not say where its commands run: write `<!-- run: `FILE` -->` above it")
        elif block.mark["verdict"] != "not run" and not block.files and not block.targets:
            yield _offence(block, "names no file and no make target where its commands run")
        for file in block.files:
            if not tree.has(file):
                yield _offence(block, f"says that {file} runs it, which is not there")
        for target in block.targets:
            if not re.search(rf"^{target}:", makefile, re.M):
                yield _offence(block, f"says that `make {target}` runs it, which is no target")


def runs(tree: Tree) -> Iterator[Offence]:
    """A file that is said to run a command names a word of it, or the page where it takes the block from it."""
    for block in blocks(tree):
        if block.kind != "console" or block.mark is None or block.mark["verdict"] != "run" or not block.files:
            continue
        text, page = "\n".join(tree.text(file) for file in block.files if tree.has(file)), block.page.split("/")[-1]
        if "word for word" in block.mark["where"] or "runs this block" in block.mark["where"]:
            if page not in text:
                yield _offence(
                    block, f"is said to run word for word, and {', '.join(block.files)} does not name {page}"
                )
            continue
        for command in block.commands:
            named = words(command)
            if named and not any(re.search(rf"\b{re.escape(word)}\b", text) for word in named):
                yield _offence(block, f"is said to run in {', '.join(block.files)}, which knows no word of: {command}")


def words(command: str) -> set[str]:
    """Return words without flags, paths, values and comments, one of which a test that runs the command names."""
    plain = [word for word in command.partition(" #")[0].split() if re.fullmatch(r"[a-z][a-z-]{2,}", word)]
    return set(plain) - ANYWHERE


def _offence(block: Block, sentence: str) -> Offence:
    return Offence(block.page, block.line, sentence)
