"""The command line: `windlass-operator run | inspect | version`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from windlass_base import json_lines
from windlass_base.command_line import output_checked

from windlass_operator import __version__
from windlass_operator.errors import SettingsError
from windlass_operator.runtime import log
from windlass_operator.settings import VARIABLES, from_env

DONE, FAILED, EXIT_USAGE = 0, 1, 2
COLLECT = (10_000, 20, 50)  # each event makes some hundred objects: with Python's 700 the collector takes a fifth
EXIT_CODES = (
    (DONE, "done; `run`: it was told to stop"),
    (FAILED, "`inspect`: the report cannot be written"),
    (EXIT_USAGE, "an option or a variable is wrong; `run`: it has no access to the cluster"),
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="windlass-operator", description="The Kubernetes operator for LLMService.")
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "run",
        help="watch LLMServices and serve them",
        description="Watch LLMServices and serve them. All settings come from the environment.",
        epilog=_variables_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect = commands.add_parser(
        "inspect",
        help="look at a model directory (the inspect Job runs this)",
        description="Look at a model directory and write what was found as a line of JSON; exit 0 when it could tell.",
    )
    inspect.add_argument("--root", type=Path, required=True, help="where the volume is mounted")
    inspect.add_argument("--path", default="", help="the model's directory inside the volume (default: its root)")
    inspect.add_argument("--source", default="the volume", help="how messages name the volume, for example pvc/models")
    inspect.add_argument("--beside", default="", help="base, adapters and draft model beside it, as JSON rows")
    inspect.add_argument("--merge", action="store_true", help="the adapter there is to be merged into its base")
    inspect.add_argument(
        "--termination-log",
        type=Path,
        default=None,
        help="file for the report (default: WINDLASS_TERMINATION_LOG, else /dev/termination-log)",
    )
    commands.add_parser("version", help="print the version")
    return top


@output_checked("windlass-operator")
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is its result."""
    options = parser().parse_args(argv)
    if options.command == "version":
        print(__version__)
        return 0
    try:
        log.start()
    except ValueError as error:
        print(f"windlass-operator: {error}", file=sys.stderr)
        return EXIT_USAGE
    if options.command == "inspect":
        return _inspect(options, os.environ)
    return _run(os.environ)


def _inspect(options: argparse.Namespace, env: Mapping[str, str]) -> int:
    from windlass_operator.inspection.job import TERMINATION_LOG, inspect, read_beside

    try:
        beside = read_beside(options.beside, merge=options.merge)
    except ValueError as error:
        words = f"--beside cannot be read: {error}"
        json_lines.say("windlass_operator.inspect", words, logging.ERROR, text=f"windlass-operator inspect: {words}")
        return EXIT_USAGE
    answer = options.termination_log or Path(env.get("WINDLASS_TERMINATION_LOG") or TERMINATION_LOG)
    try:
        report = inspect(options.root, options.path, options.source, answer, beside)
        json_lines.say(
            "windlass_operator.inspect", "the directory is inspected", text=report, report=json.loads(report)
        )
    except OSError as error:
        words = f"{answer} cannot be written: {error.strerror}"
        json_lines.say("windlass_operator.inspect", words, logging.ERROR, text=f"windlass-operator inspect: {words}")
        return FAILED
    return DONE


def _run(env: Mapping[str, str]) -> int:
    from windlass_operator.runtime.run import operate

    try:
        settings = from_env(env)
        gc.freeze()  # the imports are half a million objects that never go
        gc.set_threshold(*COLLECT)
        asyncio.run(operate(settings))
    except SettingsError as error:
        json_lines.say("windlass_operator.run", str(error), logging.ERROR, text=f"windlass-operator: {error}")
        return EXIT_USAGE
    return 0


def _variables_text() -> str:
    rows = [
        f"  {row.name:<27} {row.meaning}" + (f" (default: {row.default})" if row.default else "") for row in VARIABLES
    ]
    return "environment:\n" + "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
