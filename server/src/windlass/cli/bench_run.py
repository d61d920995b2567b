"""`windlass bench run` and `windlass bench server`: the options. A thin face of `windlass.bench.running`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.bench.serving.load import Api, DataSet
from windlass.errors import UsageError

if TYPE_CHECKING:
    from windlass.bench.running.benchmark import Benchmark

MODEL = typer.Option(help="Directory of the model that all servers serve.")
MATRIX = typer.Option(
    help="NAME=VALUE,VALUE and further ones behind it. quantization, lookahead=off,on and each flag of windlass run "
    "make servers; concurrency, temperature and request-rate make loads."
)
AXES = typer.Argument(help="Further axes of --matrix.", metavar="[NAME=VALUE,VALUE]...")
FLAGS = typer.Option(help="Flags of all servers but the engine's own, in one word, as '--max-model-len 4096'.")
STOCK = typer.Option(help="Measure the engine's own vllm serve too.")
STOCK_FLAGS = typer.Option(help="Flags of the engine's own server, in one word.")


def command(  # noqa: PLR0913, PLR0917  each option of the command line is a parameter
    model: Annotated[Path, MODEL],
    axes: Annotated[list[str] | None, AXES] = None,
    matrix: Annotated[list[str] | None, MATRIX] = None,
    flags: Annotated[str, FLAGS] = "",
    stock: Annotated[bool, STOCK] = False,
    stock_flags: Annotated[str, STOCK_FLAGS] = "",
    rounds: Annotated[int, typer.Option(min=1, max=99, help="Measurements of each server and load.")] = 5,
    together: Annotated[
        bool, typer.Option(help="Keep all servers alive side by side; give each its memory with --flags.")
    ] = False,
    dataset: Annotated[DataSet, typer.Option(help="Where prompts come from.")] = DataSet.RANDOM,
    dataset_path: Annotated[str | None, typer.Option(help="File of sharegpt, jsonl, multi-turn or trace.")] = None,
    num_prompts: Annotated[int, typer.Option(min=1, help="Requests of each measurement.")] = 100,
    input_len: Annotated[int, typer.Option(min=1, help="Tokens of an invented prompt.")] = 128,
    output_len: Annotated[int | None, typer.Option(min=1, help="Tokens of an answer.")] = None,
    range_ratio: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Random lengths vary by this share up and down.")
    ] = 0.0,
    api: Annotated[Api, typer.Option(help="chat or completions.")] = Api.CHAT,
    ignore_eos: Annotated[bool, typer.Option(help="Answers have their full length, whatever the model says.")] = False,
    warmup: Annotated[int, typer.Option(min=0, help="Requests after each start, which count nowhere.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first measurement.")] = 0,
    metadata: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for each result.json.")] = None,
    start_seconds: Annotated[float, typer.Option(min=1, help="Longest start of a server.")] = 900,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Begin no measurement after this long; the same command goes on.")
    ] = None,
    output_dir: Annotated[Path, typer.Option(help="Folder of results; one that is not finished is gone on with.")] = (
        Path("bench-run")
    ),
) -> None:
    """Start servers with other settings, measure them in turns, stop them, and write one table."""
    from windlass.bench.running import benchmark
    from windlass.bench.running import matrix as lists
    from windlass.bench.serving import files, load, prompts, run

    found = lists.axes([*(matrix or ()), *(axes or ())])
    asked = load.Load(
        server="",
        tokenizer=str(model),
        api=api,
        dataset=dataset,
        dataset_path=dataset_path,
        num_prompts=num_prompts,
        input_len=input_len,
        output_len=output_len,
        range_ratio=range_ratio,
        warmup=warmup,
        seed=seed,
        metadata=tuple(metadata or ()),
        ignore_eos=ignore_eos,
    )
    load.check(asked)
    asked = prompts.known(asked)
    files.check(asked)
    run.must_have_client()
    servers = lists.arms(found, _words("--flags", flags), _words("--stock-flags", stock_flags) if stock else None)
    whole = benchmark.Benchmark(
        model=model,
        folder=output_dir,
        arms=tuple(servers),
        asked=tuple(lists.loads(found)),
        rounds=rounds,
        load=asked,
        is_together=together,
    )
    _run(whole, start_seconds, seconds)


def _words(option: str, text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f'{option} is "{text}": {error}; write flags as a shell takes them') from None


def _run(whole: Benchmark, start_seconds: float, seconds: float | None) -> None:
    from windlass.bench.running import benchmark, servers, sweep
    from windlass.bench.serving import files, run
    from windlass.chat.shown import harmless

    def say(sentence: str) -> None:
        print(f"windlass: {harmless(sentence)}", file=sys.stderr, flush=True)

    benchmark.open_folder(whole)
    files.append_versions(whole.folder, run.versions())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    wanted = servers.Wanted(whole.model, whole.folder / "logs", start_seconds, whole.is_together)
    try:
        sweep.measure(whole, wanted, seconds, say)
    finally:
        table = whole.folder / "table.txt"
        if table.exists():
            print(table.read_text(encoding="utf-8"), end="")
            say(f"results are in {whole.folder}: report.html, table.csv, summary.csv, summary.txt, commands.txt")


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def server(
    model: Annotated[Path, MODEL],
    axes: Annotated[list[str] | None, AXES] = None,
    matrix: Annotated[list[str] | None, MATRIX] = None,
    flags: Annotated[str, FLAGS] = "",
    stock: Annotated[bool, typer.Option(help="The engine's own vllm serve instead.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the server.")] = 8501,
) -> None:
    """Start one server of a benchmark, and leave it to windlass bench client; Ctrl-C ends it."""
    import os

    from windlass.bench.running import matrix as lists
    from windlass.bench.running import servers

    words = _words("--flags", flags)
    found = lists.arms(lists.axes([*(matrix or ()), *(axes or ())]), words, words if stock else None)
    arms = [arm for arm in found if arm.is_stock == stock]
    if len(arms) != 1:
        raise UsageError(f"--matrix names {len(arms)} servers; bench server starts one, bench run starts all")
    command_words = servers.command(arms[0], model, port)
    os.environ |= servers.variables(arms[0])
    os.execv(command_words[0], command_words)  # noqa: S606 - a Python of this environment
