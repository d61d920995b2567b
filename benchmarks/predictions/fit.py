"""Fits the table that `windlass plan` predicts from, and says by how much it misses rows that were not fitted.

    PYTHONPATH=lib/sizing/src python benchmarks/predictions/fit.py [--write] [--table FILE.md]

Rows are `results/*.jsonl`, which `run.sh` wrote, and an H200's engines and servers of
`benchmarks/quantization/results`. The shapes of FITTED on CARDS are fitted, all others are held out. --write renews
`lib/sizing/src/windlass_sizing/speed/fitted.json`. The search is Levenberg and Marquardt's on logarithms of numbers and
errors, so that the same rows always give the same table. It needs numpy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement.formula import Serving
from windlass_sizing.placement.gpus import find
from windlass_sizing.speed.predict import Load, Speed
from windlass_sizing.speed.table import FITTED as TABLE
from windlass_sizing.speed.table import PLAIN, CardSpeed, MethodSpeed

HERE = Path(__file__).parent
ENGINES = HERE.parent / "quantization/results/2026-11-23-h200-end-to-end-sixth.json"
SERVERS = HERE.parent / "quantization/results/2026-11-23-h200-serving-second.json"
FITTED = ("qwen2-7b", "qwen2.5-1.5b")
"""A small and a middle one; every other shape that was measured is held out."""
CARDS = ("H200",)
"""Cards of the table. The H100's rows are held out: the H200's fit predicts them nearer than their own does."""
SHAPES: dict[str, dict[str, Any]] = json.loads((HERE / "shapes.json").read_text())
START = CardSpeed(3600.0, 25.0, 0.2, 600.0, 250.0, 5.0)
START_VALUES = tuple(asdict(START).values())
FIGURES = ("ms a token", "time to first token", "requests a second")
ENGINE_IN, ENGINE_OUT = 220, 256
STEPS, STEP, DRIFT = 200, 1e-4, 0.05
WEIGHTS = {"ms a token": 1.0, "time to first token": 0.8, "requests a second": 0.0}
"""Of a figure's squared error; requests a second follow from the other two."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure."""

    run: str
    card: str
    shape: str
    method: str
    figure: str
    load: str  # for people
    measured: float
    predict: Callable[[Speed], float]


def of_engines(path: Path, card: str) -> Iterator[Row]:
    """Decode steps and prompts alone, in an engine without a server."""
    for engine in json.loads(path.read_text()):
        if engine["method"] not in ("none", "fp8", "ifq", "ifq_nf4"):
            continue
        about = (path.stem, card, "qwen2-7b", engine["method"])
        for many in (1, 10, 64):
            yield Row(
                *about, "ms a token", f"engine, {many} at once", engine[f"ms_per_token_{many}"],
                lambda speed, many=many: speed.step_ms(many, ENGINE_IN + ENGINE_OUT / 2),
            )  # fmt: skip
        for length in (32, 128, 512, 2048):
            yield Row(
                *about, "time to first token", f"engine, prompt of {length}", engine[f"prefill_ms_{length}x1"],
                lambda speed, length=length: speed.prompt_ms(length, length),
            )  # fmt: skip


def of_serving(path: Path, card: str) -> Iterator[Row]:
    """Ten clients over HTTP; requests a second there hold the end of the run, when fewer are busy."""
    for server in json.loads(path.read_text()):
        about = (path.stem, card, "qwen2-7b", server["method"])
        load = Load(10, round(server["mean_tokens_in"]), round(server["mean_tokens_out"]))
        name = f"10 at once, {load.tokens_in} in, {load.tokens_out} out"
        yield Row(
            *about, FIGURES[0], name, server["tpot_ms_mean"], lambda speed, load=load: speed.under(load).ms_per_token
        )
        yield Row(
            *about, FIGURES[1], name, server["ttft_ms_median"], lambda speed, load=load: speed.under(load).ttft_ms
        )


def of_points(path: Path) -> Iterator[Row]:
    """Servers over HTTP: prompts alone, and loads."""
    found = path.read_bytes()
    for line in (gzip.decompress(found) if path.suffix == ".gz" else found).splitlines():
        point = json.loads(line)
        gpu = find(point["card"])
        if point["kind"] == "failed" or gpu is None or "num_experts" in SHAPES[point["shape"]]:
            continue
        yield from _of_point(point, (path.name.partition(".")[0], gpu.name, point["shape"], point["method"]))


def _of_point(point: dict[str, Any], about: tuple[str, str, str, str]) -> Iterator[Row]:
    length = point["tokens_in"]
    if point["kind"] == "prompt":
        load = Load(1, length, 2)
        yield Row(*about, FIGURES[1], f"prompt of {length}", point["ttft_ms"], lambda speed: speed.under(load).ttft_ms)
        return
    many = Load(point["clients"], round(length), round(point["tokens_out"]))
    name = f"{many.requests} at once, {many.tokens_in} in"
    yield Row(*about, FIGURES[0], name, point["tpot_ms_mean"], lambda speed: speed.under(many).ms_per_token)
    yield Row(*about, FIGURES[1], name, point["ttft_ms_median"], lambda speed: speed.under(many).ttft_ms)
    yield Row(*about, FIGURES[2], name, point["requests_per_s"], lambda speed: speed.under(many).requests_per_s)


def rows() -> list[Row]:
    """All that there are."""
    served = [row for path in sorted((HERE / "results").glob("*.jsonl*")) for row in of_points(path)]
    return [*of_engines(ENGINES, "H200"), *of_serving(SERVERS, "H200"), *served]


@cache
def facts(shape: str) -> ModelFacts:
    """Of a shape as it was measured."""
    return from_config(SHAPES[shape] | {"max_position_embeddings": 16384, "torch_dtype": "bfloat16"})


def missed(row: Row, card: CardSpeed, method: MethodSpeed) -> float:
    """Predicted over measured, less one."""
    serving = Serving(9216, quantization=None if row.method == PLAIN else row.method)
    own = replace(card, request_ms=0.0) if row.load.startswith("engine") else card
    return row.predict(Speed(facts(row.shape), serving, own, method)) / row.measured - 1


def search(start: dict[str, float], errors: Callable[[dict[str, float]], list[float]]) -> dict[str, float]:
    """The numbers of the least sum of squared errors."""
    names, at = list(start), np.log(list(start.values()))

    def seen(point: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array(errors(dict(zip(names, map(float, np.exp(point)), strict=True))))

    here, damping = seen(at), 1.0
    for _ in range(STEPS):
        slope = np.stack([(seen(at + STEP * unit) - here) / STEP for unit in np.eye(len(names))], axis=1)
        square = slope.T @ slope
        move = np.linalg.solve(
            square + damping * (np.diag(np.diag(square)) + 1e-9 * np.eye(len(names))), slope.T @ here
        )
        there = seen(at - np.clip(move, -1, 1))
        if there @ there < here @ here:
            at, here, damping = at - np.clip(move, -1, 1), there, damping / 3
        else:
            damping = min(damping * 4, 1e9)
    return dict(zip(names, map(float, np.exp(at)), strict=True))


def errors(chosen: Sequence[Row], card: CardSpeed, method: MethodSpeed) -> list[float]:
    """Log ratios, each with the weight of its figure."""
    return [WEIGHTS[row.figure] * math.log(1 + missed(row, card, method)) for row in chosen]


def fit_card(chosen: Sequence[Row]) -> CardSpeed:
    """A card's numbers from servers without quantization; one that the rows do not tell apart stays near START's."""

    def all_errors(numbers: dict[str, float]) -> list[float]:
        drift = [DRIFT * math.log(value / begun) for value, begun in zip(numbers.values(), START_VALUES, strict=True)]
        return [*drift, *errors(chosen, CardSpeed(**numbers), MethodSpeed())]

    return CardSpeed(**search(asdict(START), all_errors))


def fit_method(chosen: Sequence[Row], cards: dict[str, CardSpeed]) -> MethodSpeed:
    """A method's factors, the same on all cards; a factor that no row needs stays 1."""

    def all_errors(numbers: dict[str, float]) -> list[float]:
        one = MethodSpeed(**numbers)
        drift = [DRIFT * math.log(value) for value in numbers.values()]
        return [*drift, *(error for row in chosen for error in errors([row], cards[row.card], one))]

    return MethodSpeed(**search(asdict(MethodSpeed()), all_errors))


def fit(chosen: Sequence[Row]) -> tuple[dict[str, CardSpeed], dict[str, MethodSpeed]]:
    """Cards first, then methods."""
    plain = [row for row in chosen if row.method == PLAIN]
    cards = {name: fit_card([row for row in plain if row.card == name]) for name in {row.card for row in plain}}
    others = sorted({row.method for row in chosen} - {PLAIN})
    methods = {name: fit_method([row for row in chosen if row.method == name], cards) for name in others}
    return dict(sorted(cards.items())), {PLAIN: MethodSpeed(), **methods}


def held_out(every: Sequence[Row]) -> list[Row]:
    """Rows of shapes that are not fitted."""
    return [row for row in every if row.shape not in FITTED]


def largest(chosen: Sequence[Row], card: CardSpeed, methods: dict[str, MethodSpeed], figure: str) -> float | None:
    """The error that nine of ten rows keep; None without rows."""
    misses = sorted(abs(missed(row, card, methods[row.method])) for row in chosen if row.figure == figure)
    return round(misses[math.ceil(0.9 * len(misses)) - 1], 3) if misses else None


def document(every: Sequence[Row], cards: dict[str, CardSpeed], methods: dict[str, MethodSpeed]) -> dict[str, Any]:
    """The table's file."""
    found: dict[str, Any] = {"cards": {}, "methods": {name: rounded(one) for name, one in methods.items()}}
    for name, card in cards.items():
        own = [row for row in every if row.card == name]
        held = held_out(own)
        origin = {
            "runs": sorted({row.run for row in own}),
            "shapes": sorted({row.shape for row in own}),
            "rows": len(own),
            "ms_per_token_error": largest(held, card, methods, FIGURES[0]),
            "ttft_error": largest(held, card, methods, FIGURES[1]),
            "requests_error": largest(held, card, methods, FIGURES[2]),
        }
        found["cards"][name] = {**rounded(card), "origin": origin}
    return found


def rounded(one: CardSpeed | MethodSpeed) -> dict[str, float]:
    """Four digits."""
    return {field.name: float(f"{getattr(one, field.name):.4g}") for field in fields(one)}


def table(every: Sequence[Row], cards: dict[str, CardSpeed], methods: dict[str, MethodSpeed]) -> Iterator[str]:
    """Errors by card, figure, and whether the shape was fitted; then every row."""
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in every:
        kind = "fitted" if row.shape in FITTED else "held out"
        groups[row.card, row.figure, kind].append(100 * missed(row, cards[row.card], methods[row.method]))
    yield "| card | figure | shapes | rows | median error, % | nine of ten within, % | largest, % |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for (card, figure, kind), misses in sorted(groups.items()):
        ranked = sorted(map(abs, misses))
        nine = ranked[math.ceil(0.9 * len(ranked)) - 1]
        middle = ranked[len(ranked) // 2]
        yield f"| {card} | {figure} | {kind} | {len(ranked)} | {middle:.1f} | {nine:.1f} | {ranked[-1]:.1f} |"
    yield ""
    yield "| card | shape | method | load | figure | measured | predicted | error, % |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in every:
        miss = missed(row, cards[row.card], methods[row.method])
        where = f"{row.card} | {row.shape} | {row.method} | {row.load} | {row.figure}"
        yield f"| {where} | {row.measured:.3g} | {row.measured * (1 + miss):.3g} | {100 * miss:+.1f} |"


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew the table that is shipped")
    parser.add_argument("--table", type=Path, help="every row, measured and predicted, as Markdown")
    wanted = parser.parse_args()
    every = [row for row in rows() if row.card in CARDS]
    cards, methods = fit([row for row in every if row.shape in FITTED])
    lines = list(table(every, cards, methods))
    print("\n".join(lines[: lines.index("")]))
    print(json.dumps(found := document(every, cards, methods), indent=1))
    if wanted.table:
        wanted.table.write_text("\n".join(lines) + "\n")
    if wanted.write:
        TABLE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
