"""`windlass serve`, and with it `vllm serve` in the image: the engine's own command with our flags added.

What is not said is left to the engine, and variables do not count: the command means what its manual says. `vllm` with
any other command is the engine's own.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import typer
from windlass_sizing.settings.flags import FLAGS, Effect

from windlass import table
from windlass.cli import run
from windlass.errors import UsageError

PROGRAM = "windlass-vllm"
NO_ENGINE = "vLLM is not installed here; run in the serving image, or install windlass-server[engine]"
ENGINE_CLI = "vllm.entrypoints.cli.main"
USAGE = """\
Usage: windlass serve [MODEL] [FLAGS] [FLAGS OF THE ENGINE]

The engine's own start command (port 8000, its own defaults) with the flags below added. Variables do not count here;
`windlass run` is the command that reads them. Every other flag is the engine's: `vllm bench`, `vllm chat` and the
other commands stay as they are.

  --explain  print each value that was said, and start nothing
  --help     print this
"""


def command(context: typer.Context) -> None:
    """Serve as the engine's own command does, with our flags added."""
    words = tuple(context.args)
    if run.asks_for_help(words):
        print(USAGE)
        ours = [flag for flag in FLAGS if flag.effect is not Effect.ENGINE]
        table.show(("FLAG", "VARIABLE", "DEFAULT", "MEANING"), run.help_rows(ours))
        return
    from windlass.launch import exec as launch
    from windlass.launch.resolve import NATIVE

    if "--explain" in words:
        plan, _ = launch.plan(tuple(word for word in words if word != "--explain"), os.environ, NATIVE)
        run.explain(plan)
        return
    raise SystemExit(launch.run(words, os.environ, NATIVE))


def vllm() -> None:
    """Entry point of the `vllm` script in our images."""
    words = sys.argv[1:]
    if find_spec("vllm") is None and not _is_explained(words):
        print(f"{PROGRAM}: {NO_ENGINE}", file=sys.stderr)
        raise SystemExit(UsageError.exit_code)
    if words[:1] == ["serve"] and not run.asks_for_help(words):
        module = ["windlass.cli.main", *words]
    else:
        module = [ENGINE_CLI, *words]
    os.execv(sys.executable, [sys.executable, "-m", *module])  # noqa: S606 - a Python of this environment


def _is_explained(words: list[str]) -> bool:
    """`serve --explain` starts nothing, so it needs no engine."""
    return words[:1] == ["serve"] and "--explain" in words
