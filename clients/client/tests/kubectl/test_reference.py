"""docs/reference/kubectl-windlass.md is printed from the parser; WINDLASS_GOLDEN=write rewrites it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from windlass_kubectl.parser import parser
from windlass_kubectl.reference import page
from windlass_testbed.cases import every_case

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "kubectl-windlass.md"

HOW_TO = PAGE.parents[1] / "how-to" / "kubectl-windlass.md"
SHOWN = [
    line.removeprefix("$ ").removeprefix("kubectl windlass ")
    for text in (HOW_TO.read_text(), parser().format_help(), *(PAGE.read_text().split("examples:")[1:]))
    for line in map(str.strip, text.splitlines())
    if line.removeprefix("$ ").startswith("kubectl windlass ") and "<TAB>" not in line
]


@every_case("line", dict.fromkeys(SHOWN))
def test_a_command_that_the_docs_show_is_understood(line):
    """In the how-to, in --help, and in its page."""
    words = shlex.split(line, comments=True)
    if words != ["--help"]:
        assert parser().parse_args(words).command == words[0]


def test_the_page_is_what_help_says():
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
