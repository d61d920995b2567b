"""docs/reference/kubectl-windlass.md, printed from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from windlass_kubectl.parser import EXIT_CODES, parser

HEAD = """\
# `kubectl windlass`

<!-- Printed from the parser: WINDLASS_GOLDEN=write pytest clients/client/tests/kubectl/test_reference.py -->

The plug-in comes with `pip install windlass-client`; kubectl finds `kubectl-windlass` on the `PATH`. `license init`,
`renew` and `add-gpus` start the program of `pip install 'windlass-client[license]'`. Options may stand before or
after a command's name. How it is used: [how-to](../how-to/kubectl-windlass.md), [licenses](../how-to/license.md).
"""


def page() -> str:
    """The whole page."""
    sections = "\n".join(_sections("kubectl windlass", parser()))
    codes = "\n".join(f"| {row.code} | {row.meaning} |" for row in EXIT_CODES)
    return "\n".join([HEAD, sections, f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{codes}\n"])


def _sections(title: str, one: argparse.ArgumentParser) -> Iterator[str]:
    """The command's own, then those of the commands below it."""
    yield _section(title, one)
    for action in one._actions:
        if isinstance(action.choices, dict):
            for name, below in action.choices.items():
                yield from _sections(f"{title} {name}", below)


def _section(title: str, one: argparse.ArgumentParser) -> str:
    return f"## `{title}`\n\n```text\n{one.format_help().strip()}\n```\n"
