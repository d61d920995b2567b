"""`windlass quantize`: makes quantized weights that need samples to look at. The rest is quantized while it loads."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from windlass import table
from windlass.errors import ModelError, UsageError

LINE_EVERY_S = 5.0
BAR_WIDTH = 30  # characters
Model = Annotated[Path, typer.Argument(help="Model directory, not quantized.")]
Data = Annotated[Path, typer.Option(help='Samples: text in paragraphs, or JSON lines with "text" or "messages".')]
Samples = Annotated[int, typer.Option(min=1, help="Samples read.")]
Length = Annotated[int, typer.Option(min=2, help="Tokens of a sample at most.")]
Seed = Annotated[int, typer.Option(min=0, help="Draws the samples.")]

app = typer.Typer(
    help="Make quantized weights from samples (smoothquant, gptq).", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def smoothquant(
    model: Model,
    data: Data,
    samples: Samples = 256,
    length: Length = 512,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="File; by default where --quantization smoothquant looks.")] = None,
) -> None:
    """INT8 weights and activations, smoothed as a search finds best for each layer. Run it again when it was ended."""
    from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

    _check(model, data)
    from windlass.engine.quantization.smoothquant.make import Recipe, make

    target = out or model / SMOOTHQUANT_FILE
    try:
        chosen = make(model, target, Recipe(str(data), samples, length, seed), progress())
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error}; name another place with --out") from error
    rows = [
        (number, before, "-" if found["strength"] is None else f"{found['strength']:.2f}",
         f"{found['plain']:.2e}", f"{found['error']:.2e}")
        for (number, _, before), found in ((key.partition(" "), found) for key, found in chosen.items())
    ]  # fmt: skip
    table.show(("LAYER", "AFTER", "STRENGTH", "ERROR WITHOUT", "ERROR"), rows)
    print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")


@app.command()
def gptq(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Model directory to make.")],
    samples: Samples = 256,
    length: Length = 512,
    seed: Seed = 0,
) -> None:
    """GPTQ: 4 bits, groups of 128, no reordering; a model directory that is served without a flag."""
    _check(model, data)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out} is not an empty directory; name one that is, or none yet")
    from windlass.engine.quantization.gptq.make import Recipe, make

    try:
        errors = make(model, out, Recipe(data, samples, length, seed), progress())
    except OSError as error:
        raise ModelError(f"{out} cannot be written: {error}; name another place with --out") from error
    table.show(("LAYER", "ERROR"), [(name, f"{error:.2e}") for name, error in errors.items()])
    size = sum(file.stat().st_size for file in out.glob("*.safetensors"))
    print(f"{out}: {size / 2**20:.1f} MiB")


def _check(model: Path, data: Path) -> None:
    from windlass.engine.startup.model_json import read_json

    if read_json(model / "config.json", flag="MODEL").get("quantization_config"):
        raise ModelError(f"{model} is quantized already; name the model that it was made from")
    if not data.is_file():
        raise UsageError(f"--data {data} is no file; give one of text, or of JSON lines")
    if missing := [name for name in ("torch", "transformers") if find_spec(name) is None]:
        raise UsageError(f"quantize needs {missing[0]}, which is not installed here; use the serving image")


def bar(what: str, done: int, of: int) -> str:
    """`layers   [#####                         ] 4/28`."""
    return f"{what:8s} [{'#' * (BAR_WIDTH * done // of):{BAR_WIDTH}s}] {done}/{of}"


def left_s(passed_s: float, done: int, remaining: int) -> str:
    """`, 1:05 left`, at the pace so far; nothing before there is one, or at the end."""
    if done < 1 or remaining < 1:
        return ""
    minutes, seconds = divmod(round(passed_s / done * remaining), 60)
    return f", {minutes}:{seconds:02d} left"


def progress() -> Callable[[str, int, int], None]:
    """A bar with the time that is left on a terminal, a line now and then elsewhere."""
    last = 0.0
    since: dict[str, tuple[float, int]] = {}  # of each part: the first moment, and what was done then

    def report(what: str, done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        start, before = since.setdefault(what, (now, done))
        if sys.stderr.isatty():
            end = "\n" if done == of else ""
            left = left_s(now - start, done - before, of - done)
            print(f"\r{bar(what, done, of)}{left:14s}", end=end, file=sys.stderr, flush=True)
        elif done == of or now - last >= LINE_EVERY_S:
            last = now
            print(f"windlass: {what} {done} of {of}", file=sys.stderr, flush=True)

    return report
