"""`windlass run`: the container's start command, its `--help` from the table of flags, and `--explain`."""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer
from windlass_sizing.settings.flags import FLAGS, Flag

from windlass import table
from windlass.launch.model import LaunchPlan

USAGE = """\
Usage: windlass run [MODEL] [FLAGS] [FLAGS OF THE ENGINE]

Serves a model directory: license first, then the engine. A flag wins over its variable; dashes and underscores are
the same. Flags that are not in this list go to the engine as they stand; one that the engine lacks is refused.

  --explain  print each value and where it came from, and start nothing
  --help     print this
"""


def command(context: typer.Context) -> None:
    """Serve a model directory (--explain prints what would be started)."""
    words = tuple(context.args)
    if asks_for_help(words):
        print(USAGE)
        table.show(("FLAG", "VARIABLE", "DEFAULT", "MEANING"), help_rows(FLAGS))
        return
    from windlass.launch import exec as launch

    if "--explain" in words:
        plan, _ = launch.plan(tuple(word for word in words if word != "--explain"), os.environ)
        explain(plan)
        return
    raise SystemExit(launch.run(words, os.environ))


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the help is wanted, in any of the engine's spellings."""
    return any(word in {"-h", "--help"} or word.startswith("--help=") for word in words)


def help_rows(flags: Sequence[Flag]) -> list[tuple[str, str, str, str]]:
    """The table of flags for people."""
    return [(f"--{flag.name}", ", ".join(flag.variables) or "-", flag.default or "-", flag.help) for flag in flags]


def explain(plan: LaunchPlan) -> None:
    """Print the plan."""
    rows = [(setting.name, setting.shown, setting.source, setting.why) for setting in plan.settings]
    table.show(("SETTING", "VALUE", "FROM", "WHY"), rows)
    for sentence in (*plan.warnings, *plan.notes):
        print(f"note: {sentence}")
    print(f"engine: {' '.join(plan.shown_args)}")
