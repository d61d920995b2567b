"""How `kubectl windlass` reads its command line."""

from __future__ import annotations

from windlass_base import command_line


class Parser(command_line.Parser):
    """Of each of the plug-in's commands."""

    program = "kubectl windlass"
