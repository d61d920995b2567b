"""The command `windlass-deepspeed`: `run`, the `engine` that it starts, `--help` from the table of flags."""

from __future__ import annotations

import os
import sys

from windlass_base import json_lines
from windlass_base.command_line import output_checked

from windlass_deepspeed import __version__
from windlass_deepspeed.errors import UsageError, WindlassError
from windlass_deepspeed.flags import FLAGS, Flag

PROGRAM = "windlass-deepspeed"
USAGE = """\
Usage: windlass-deepspeed run [FLAGS]
       windlass-deepspeed version

Serves a model directory through DeepSpeed inference: license first, then the engine. A flag wins over its variable;
dashes and underscores are the same.
"""


@output_checked(PROGRAM)
def main() -> None:
    """The entry point."""
    try:
        raise SystemExit(_command(tuple(sys.argv[1:])))
    except WindlassError as error:
        # The engine's last words are lines of the supervisor's, which reads them as text.
        record = json_lines.complaint(os.environ, PROGRAM, str(error)) if sys.argv[1:2] == ["run"] else ""
        print(record or f"{PROGRAM}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from error


def help_text() -> str:
    """What `--help` prints."""
    rows = [("FLAG", "VARIABLE", "DEFAULT", "MEANING"), *(help_row(flag) for flag in FLAGS)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3])) for row in rows
    ]
    return "\n".join((USAGE, *lines))


def help_row(flag: Flag) -> tuple[str, str, str, str]:
    """A flag for people."""
    choices = f" ({', '.join(flag.choices)})" if flag.choices else ""
    return (f"--{flag.name}" if flag.spoken else "-", flag.variable or "-", flag.default or "-", flag.help + choices)


def _command(words: tuple[str, ...]) -> int:
    if not words:
        print(help_text(), file=sys.stderr)
        return UsageError.exit_code
    if words[0] in ("-h", "--help", "help") or "--help" in words:
        print(help_text())
        return 0
    name, *rest = words
    if name in {"version", "--version"}:
        print(__version__)
        return 0
    if name == "engine":  # started by `run` when the license is granted
        from windlass_deepspeed import serve

        return serve.run(tuple(rest), os.environ)
    if name != "run":
        raise UsageError(f'"{name}" is no command; write windlass-deepspeed run')
    from windlass_deepspeed import supervise

    return supervise.run(tuple(rest), os.environ)
