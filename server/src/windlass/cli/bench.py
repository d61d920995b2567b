"""`windlass bench`: `serve` loads a server, `run` starts and measures several, `compare` holds results together.

`replay` says what a drafter would have gained on recorded text.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli import bench_compare, bench_run, bench_serve
from windlass.errors import UsageError

if TYPE_CHECKING:
    from windlass_lookahead import Options

app = typer.Typer(help="Measure a server, or drafts on recorded text.", no_args_is_help=True, rich_markup_mode=None)


class Output(StrEnum):
    """How the rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@app.callback()
def bench() -> None:
    """Measure a server, or drafts on recorded text."""


app.command("serve")(bench_serve.command)
app.command("client")(bench_serve.command)
app.command("server")(bench_run.server)
app.command("run")(bench_run.command)
app.command("compare")(bench_compare.command)


@app.command("replay")
def replay(  # noqa: PLR0913, PLR0917  each option of the command line is a parameter
    traces: Annotated[list[Path], typer.Option(help="Trace file, plain or gzip; may be given again.")],
    drafter: Annotated[
        list[str] | None, typer.Option(help="raw, turbo, both, ngram, suffix or none; may be given again.")
    ] = None,
    tokenizer: Annotated[str, typer.Option(help="tekken, pieces, or a tokenizer file.")] = "tekken",
    num_speculative_tokens: Annotated[
        list[int] | None, typer.Option(min=1, max=256, help="Most tokens of a draft; may be given again.")
    ] = None,
    warm: Annotated[
        list[Path] | None, typer.Option(help="Trace file that passes first; problems that are measured are left out.")
    ] = None,
    config_dir: Annotated[
        Path | None, typer.Option("--lookahead-cache-config-dir", help="Directory of lookahead_cache_config.json.")
    ] = None,
    ngram: Annotated[str, typer.Option(help="Shortest and longest n-gram of the ngram drafter.")] = "2:4",
    output: Annotated[Output, typer.Option("--output", "-o", help="table, json or csv.")] = Output.TABLE,
) -> None:
    """Walk recorded text as greedy decoding would, and print what each drafter gained and cost."""
    from windlass import table
    from windlass.bench import report

    plan = report.Plan(
        trace_files=traces,
        drafters=drafter or ["both", "ngram", "suffix", "none"],
        tokenizer=tokenizer,
        limits=num_speculative_tokens or [6],
        warm_files=warm or [],
        options=_options(config_dir) if config_dir else None,
        ngram=_span(ngram),
    )
    found = list(report.rows(plan))
    if output is Output.JSON:
        print(report.as_json(found))
    elif output is Output.CSV:
        print(report.as_csv(found))
    else:
        table.show(report.headings(), [report.cells(row) for row in found])


def _span(text: str) -> tuple[int, int]:
    shortest, _, longest = text.partition(":")
    if not (shortest.isdigit() and longest.isdigit() and 0 < int(shortest) <= int(longest)):
        raise UsageError(f'--ngram "{text}" must be shortest:longest, as 2:4.')
    return int(shortest), int(longest)


def _options(directory: Path) -> Options:
    try:
        from windlass_lookahead import LookaheadError, options_from_directory
    except ImportError:
        raise UsageError(
            "--lookahead-cache-config-dir needs windlass-lookahead; install windlass-server[bench]."
        ) from None
    try:
        return options_from_directory(directory)
    except LookaheadError as error:
        raise UsageError(str(error)) from None
