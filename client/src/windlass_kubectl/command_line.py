"""How `kubectl windlass` reads its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from windlass_base import command_line


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
            if left and _is_argument(left[0]) and getattr(found, dest) is None:
                setattr(found, dest, left.pop(0))
        return found, left


def _is_argument(text: str) -> bool:
    return text == "-" or not text.startswith("-")
