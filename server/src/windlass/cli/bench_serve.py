"""`windlass bench serve`: the options of a benchmark. A thin face of `windlass.bench.serving`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.bench.serving.load import Api, DataSet
from windlass.errors import UsageError

if TYPE_CHECKING:
    from windlass.bench.serving.load import Load
    from windlass.bench.serving.run import Target


def command(  # noqa: PLR0913, PLR0917  each option of the command line is a parameter
    tokenizer: Annotated[str, typer.Option(help="Directory of the served model: prompts are counted in its tokens.")],
    server: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:8501",
    model: Annotated[str, typer.Option(help="Model name; the server's first when left out.")] = "",
    name: Annotated[str, typer.Option(help="Name of the rows; day and model when left out.")] = "",
    api: Annotated[Api, typer.Option(help="chat or completions.")] = Api.CHAT,
    dataset: Annotated[DataSet, typer.Option(help="Where prompts come from.")] = DataSet.RANDOM,
    dataset_path: Annotated[str | None, typer.Option(help="File of sharegpt, jsonl, multi-turn or trace.")] = None,
    num_prompts: Annotated[int, typer.Option(min=1, help="Requests of each run.")] = 200,
    input_len: Annotated[int, typer.Option(min=1, help="Tokens of an invented prompt, behind its prefix.")] = 128,
    output_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens of an answer; 128 for invented prompts, else as the file says.")
    ] = None,
    prefix_len: Annotated[int, typer.Option(min=1, help="Tokens of a shared prefix.")] = 256,
    num_prefixes: Annotated[int, typer.Option(min=1, help="How many shared prefixes there are.")] = 10,
    range_ratio: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Random lengths vary by this share up and down.")
    ] = 0.0,
    request_rate: Annotated[str, typer.Option(help="Requests a second; inf sends all at once.")] = "inf",
    burstiness: Annotated[
        float, typer.Option(min=0.01, help="1 is a Poisson process; less comes in bursts, more is even.")
    ] = 1.0,
    ramp: Annotated[
        str | None, typer.Option(help="A rate that rises over each run, as linear:1:20 or exponential:1:20.")
    ] = None,
    trace_speed: Annotated[float, typer.Option(min=0.001, help="How much faster than recorded a trace is sent.")] = 1.0,
    concurrency: Annotated[
        str | None, typer.Option(help="Most requests at once; 1,10,64 is a run for each. No limit when left out.")
    ] = None,
    warmup: Annotated[int, typer.Option(min=0, help="Requests before the first run, which count nowhere.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; each further run adds one.")] = 0,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="The server's when left out.")] = None,
    ignore_eos: Annotated[bool, typer.Option(help="Answers have their full length, whatever the model says.")] = False,
    goodput: Annotated[
        list[str] | None, typer.Option(help="Limit of a good request, as ttft:200 in ms; may be given again.")
    ] = None,
    metadata: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for result.json; may be given again.")] = None,
    metrics_url: Annotated[str | None, typer.Option(help="The engine's counters; /metrics of the server.")] = None,
    output_dir: Annotated[Path | None, typer.Option(help="New folder for results; bench-TIME when left out.")] = None,
    token: Annotated[str | None, typer.Option(envvar="WINDLASS_API_KEY", help="Bearer key.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File or folder of keys, as a service has them; its first key is used.")
    ] = None,
    print_archive: Annotated[
        bool, typer.Option(help="Print the folder as an archive in text at the end, for kubectl windlass bench.")
    ] = False,
) -> None:
    """Load a server with vLLM's client, and write tables, a page and the engine's own counters."""
    from windlass.bench.serving import files, load, run
    from windlass.chat.stream import http_address

    asked = load.Load(
        server=http_address(server).rstrip("/").removesuffix("/v1"),
        tokenizer=tokenizer,
        model=model,
        name=name,
        api=api,
        dataset=dataset,
        dataset_path=dataset_path,
        num_prompts=num_prompts,
        input_len=input_len,
        output_len=output_len,
        prefix_len=prefix_len,
        num_prefixes=num_prefixes,
        range_ratio=range_ratio,
        request_rate=load.request_rate(request_rate),
        burstiness=burstiness,
        concurrency=load.concurrency(concurrency),
        warmup=warmup,
        seed=seed,
        temperature=temperature,
        goodput=tuple(goodput or ()),
        metadata=tuple(metadata or ()),
        ignore_eos=ignore_eos,
        ramp=load.ramp(ramp),
        trace_speed=trace_speed,
    )
    load.check(asked)
    files.check(asked)
    run.must_have_client()
    folder = output_dir or Path(f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    counters = http_address(metrics_url, "--metrics-url") if metrics_url else f"{asked.server}/metrics"
    target = run.Target(folder, counters, _key(token, token_file))
    _run(asked, target, print_archive=print_archive)


def _key(token: str | None, path: Path | None) -> str | None:
    from windlass.front.key_document import KeyDocumentError
    from windlass.front.key_files import first_key

    if path is None or token:
        return token
    try:
        return first_key(path)
    except (OSError, KeyDocumentError) as error:
        raise UsageError(f"--token-file {path}: {error}") from error


def _run(asked: Load, target: Target, *, print_archive: bool) -> None:
    from windlass.bench.serving import archive, files, load, prompts, run
    from windlass.chat.shown import harmless
    from windlass.chat.stream import ChatServer

    with ChatServer(asked.server, token=target.token) as listing:
        model = asked.model or listing.model
    asked = prompts.known(load.named(asked, model, f"{datetime.now(UTC):%Y%m%d}"))
    files.make(target.folder)

    def say(sentence: str) -> None:
        print(f"windlass: {harmless(sentence)}", file=sys.stderr, flush=True)

    try:
        run.run(asked, target, say)
    finally:
        if (target.folder / "summary.csv").exists():
            say(f"results are in {target.folder}: report.html, summary.csv, summary.txt, commands.txt")
            if print_archive:
                print("\n".join(archive.lines(target.folder)), flush=True)
