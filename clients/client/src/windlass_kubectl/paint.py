"""Trees, tables and bars as text; colours where a terminal shows them, plain ASCII where it has no more. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from windlass_kubectl.harmless import Painted, one_line

CODES = {"good": "32", "bad": "31", "wait": "33", "head": "1", "dim": "2"}
WIDTH = 116
CELL_MAX, TEXT_MAX = 253, 8192  # characters; Kubernetes' longest name, and more than any message of ours
SPACES = str.maketrans("\n\r\t", "   ")
BRANCHES = {True: ("├─ ", "└─ ", "│  ", "   "), False: ("|- ", "`- ", "|  ", "   ")}
MARKS = {True: {"good": "✔", "bad": "✘", "wait": "…"}, False: {"good": "+", "bad": "!", "wait": "."}}
BLOCKS = {True: "█▓▒░", False: "#=+."}


@dataclass(frozen=True, slots=True)
class Branch:
    """A line, its colour, and what hangs below it."""

    text: str
    style: str = ""  # a key of CODES, or nothing
    below: tuple[Branch, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Paint:
    """How this terminal can be written to."""

    colour: bool = False
    unicode: bool = True

    def styled(self, text: str, style: str) -> str:
        """The text in its colour."""
        return f"\x1b[{CODES[style]}m{text}\x1b[0m" if self.colour and style else text

    def mark(self, style: str) -> str:
        """A sign that says the same as the colour."""
        return MARKS[self.unicode].get(style, " ")

    def tree(self, root: Branch) -> Painted:
        """The whole tree; its texts are foreign, and made harmless before they are coloured."""
        head = self.styled(one_line(root.text.translate(SPACES), TEXT_MAX), root.style)
        return Painted("\n".join([head, *self._below(root.below, "")]))

    def _below(self, branches: Sequence[Branch], indent: str) -> list[str]:
        middle, last, through, nothing = BRANCHES[self.unicode]
        lines: list[str] = []
        for number, branch in enumerate(branches):
            end = number == len(branches) - 1
            further = indent + (nothing if end else through)
            first, *rest = _wrapped(branch.text, WIDTH - len(further))
            lines.append(indent + (last if end else middle) + self.styled(first, branch.style))
            lines += [further + "  " + self.styled(line, branch.style) for line in rest]
            lines += self._below(branch.below, further)
        return lines

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Painted:
        """Columns two spaces apart, nothing behind the last word; cells are made harmless."""
        every = [[one_line(cell, CELL_MAX) for cell in row] for row in (headings, *rows)]
        widths = [max(len(row[column]) for row in every) for column in range(len(headings))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
        ]
        return Painted("\n".join([self.styled(lines[0], "head"), *lines[1:]]))

    def bar(self, shares: Sequence[float], width: int = 40) -> str:
        """Shares of a whole of 1, side by side; more than the whole fills the bar."""
        blocks = BLOCKS[self.unicode]
        ends = [min(1.0, max(0.0, sum(shares[: number + 1]))) for number in range(len(shares))]
        cells, begun = "", 0
        for block, end in zip(blocks, ends, strict=False):
            upto = round(end * width)
            cells += block * (upto - begun)
            begun = max(begun, upto)
        return f"[{cells.ljust(width, blocks[-1])}]"


def _wrapped(text: str, width: int) -> list[str]:
    plain = one_line(text.translate(SPACES), TEXT_MAX)
    return textwrap.wrap(plain, max(40, width), break_long_words=False, break_on_hyphens=False) or [""]
