"""How `kubectl windlass` reads its command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from windlass_base import command_line

ARGUMENT = re.compile(r"-?$|[^-]|.* |-[\d.]+$", re.DOTALL)
"""As argparse tells an argument from an option: no dash before it, a space in it, a negative number, or `-` alone."""


class Parser(command_line.Parser):
    """Of each of the plug-in's commands."""

    program = "kubectl windlass"

    def parse_known_args(  # type: ignore[override]  # the overloads of argparse are for namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Options may stand between two arguments: argparse itself gives up on the second, where it is optional."""
        found, left = super().parse_known_args(args, namespace)
        missing = (one.dest for one in self._actions if not one.option_strings and one.nargs == argparse.OPTIONAL)
        for dest in missing:
            if getattr(found, dest) is None and (count := _leading(left)):
                setattr(found, dest, left[count - 1])
                left = left[count:]
        return found, left


def _leading(words: Sequence[str]) -> int:
    """How many words the argument at their beginning takes: one, two behind `--`, none where it is an option."""
    if words[:1] == ["--"]:
        return 2 if len(words) > 1 else 0
    return 1 if words and ARGUMENT.match(words[0]) else 0
