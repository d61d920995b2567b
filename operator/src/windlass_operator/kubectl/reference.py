"""docs/reference/kubectl-windlass.md, printed from the parser itself."""

from __future__ import annotations

import argparse

from windlass_operator.kubectl.parser import EXIT_CODES, parser

HEAD = """\
# `kubectl windlass`

<!-- Printed from the parser: WINDLASS_GOLDEN=write pytest operator/tests/kubectl/test_reference.py -->

The plug-in comes with `pip install windlass-operator`; kubectl finds `kubectl-windlass` on the `PATH`. Options may
stand before or after a command's name. How it is used: [how-to](../how-to/kubectl-windlass.md).
"""


def page() -> str:
    """The whole page."""
    top = parser()
    sections = [_section("kubectl windlass", top)]
    for action in top._actions:
        if isinstance(action.choices, dict):
            sections += [_section(f"kubectl windlass {name}", one) for name, one in action.choices.items()]
    codes = "\n".join(f"| {row.code} | {row.meaning} |" for row in EXIT_CODES)
    return "\n".join([HEAD, *sections, f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{codes}\n"])


def _section(title: str, one: argparse.ArgumentParser) -> str:
    return f"## `{title}`\n\n```text\n{one.format_help().strip()}\n```\n"
