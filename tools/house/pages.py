"""Pages: links lead somewhere, every folder of docs/ has its place on the site, and commands are marked as such."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..docs import links as site
from .tree import Offence, Tree, line_of

FENCE = re.compile(r"^ *(?:```|~~~) *(\w*)")
PROMPT = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
HOOK = "tools/docs/hook.py"
# Fragments are read in the change log.
SHOWN_IN = {"changelog.d": "CHANGELOG.md"}


def links(tree: Tree) -> Iterator[Offence]:
    """A link names a file of the repository, and a heading that is there."""
    anchors = cache(lambda path: site.anchors(tree.text(path)))
    for page in tree.matching("*.md"):
        text = tree.text(page)
        for target in site.targets(text):
            path, anchor = site.resolve(SHOWN_IN.get(Path(page).parts[0], page), target)
            if not tree.has(path) and not (tree.root / path).exists():
                yield Offence(page, line_of(text, f"]({target})"), f"links to {target}, which is not there")
            elif anchor and not (tree.root / path).is_dir() and anchor not in anchors(path):
                yield Offence(page, line_of(text, f"]({target})"), f"links to {target}, a heading that is not there")


def sections(tree: Tree) -> Iterator[Offence]:
    """A folder of docs/ has a tab on the site."""
    tabs = next(
        ast.literal_eval(node.value)
        for node in ast.parse(tree.text(HOOK)).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SECTIONS"
    )
    folders = {Path(page).parts[1]: page for page in tree.below("docs", ".md") if len(Path(page).parts) > 2}
    for folder in sorted(folders.keys() - set(tabs)):
        yield Offence(folders[folder], 1, f"is in a folder without a tab: add {folder} to SECTIONS in {HOOK}")


def prompts(tree: Tree) -> Iterator[Offence]:
    """A block with a prompt is a console: elsewhere the copy button takes the prompt with the command."""
    for page in tree.matching("*.md"):
        kind = ""
        for number, line in enumerate(tree.text(page).splitlines(), 1):
            if fence := FENCE.match(line):
                kind = (fence[1] or "text") if not kind else ""
            elif kind not in ("", "console") and line.lstrip().startswith("$ "):
                yield Offence(page, number, f"is a prompt in a block of {kind}: make it ```console")


def commands(text: str) -> list[str]:
    """Return the lines of a page's consoles that begin with a prompt, in order."""
    lines = (line for block in PROMPT.findall(text) for line in block.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
