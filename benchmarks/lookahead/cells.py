"""On a GPU: is decoding with lookahead ever slower, as people serve? 24 cells, fixed before the first run, or six.

    python prepare_cells.py CELLS.json.gz --alpaca-eval CLONE --wmt CLONE --tau-bench CLONE
    python cells.py CELLS.json.gz OUT.json [--seconds 545] [--requests 128 64] [--sampled] [--after FILE]
    python cells.py OUT.json --table

A cell is a workload, requests at a time, a temperature, the most tokens of an answer, and whether the cache begins
empty or has seen the workload's other half. The texts are of sources that no rule was tuned on. Three engines of
`on_device.py` stand beside one another: without lookahead, with it, and once more without. Their order goes round all
six. So each pair comes with one of without against without: what this method cannot resolve.

With --sampled there are six other cells, and no text is forced: the engines sample their own, by random weights. No
repeats are expected in it, so the cells show what lookahead costs where it cannot gain.

The last column of the table is the upper bound of the mean of all cells, 95 %, by the spread within each cell.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arms import Arm, Exchange
from on_device import LAST, TEMP, common, ours, rounds_of

WORKLOADS = ("chat", "translation", "no repeats", "agent")
REQUESTS, TEMPERATURES, ANSWERS, CACHES = (1, 10, 64, 128), (0.0, 0.7, 1.0), (32, 96, 256), ("empty", "warm")
CELLS_EACH = 6
PAIRS_MIN, PAIRS_MAX = 6, 24
NONE, OURS, AGAIN = "none", "lookahead", "none again"
ORDERS = tuple(itertools.permutations((NONE, OURS, AGAIN)))
QUANTILE = 1.645
"""Of the normal distribution, one side, 95 %."""
DRAFTED = 6
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """What is asked."""

    workload: str
    requests: int
    temperature: float
    answer: int
    cache: str
    is_forced: bool = True
    """Whether it is the recorded text; else the engine samples its own."""


def cells() -> list[Cell]:
    """Each size, temperature and length as often as the others, in an order that mixes them."""
    found = [
        Cell(
            name, REQUESTS[(at + first) % 4], TEMPERATURES[at % 3], ANSWERS[(at + at // 3 + first) % 3], CACHES[at % 2]
        )
        for first, name in enumerate(WORKLOADS)
        for at in range(CELLS_EACH)
    ]
    random.Random(3).shuffle(found)  # noqa: S311 - no secret
    return found


def sampled_cells() -> list[Cell]:
    """Prompts of chat at both temperatures that sample."""
    return [
        Cell("chat", requests, temperature, 96, "empty", is_forced=False)
        for requests, temperature in itertools.product((10, 64, 1), (1.0, 0.7))
    ]


def halves(path: Path) -> dict[str, tuple[list[Exchange], list[Exchange]]]:
    """What a warm cache has seen of each workload, and what is measured."""
    found = json.loads(gzip.decompress(path.read_bytes()))
    return {name: (found[name][: len(found[name]) // 2], found[name][len(found[name]) // 2 :]) for name in WORKLOADS}


def measure(arms: dict[str, Arm], cell: Cell, texts: tuple[list[Exchange], list[Exchange]], limit_s: float) -> Row:
    """Rounds of the three engines, as many as the time has, and at least six."""
    seen, rows = texts
    arms[OURS].ask("run", LAST, 2, True)
    arms[OURS].ask("call", "base", "cell", seen if cell.cache == "warm" else [])
    began, times = time.monotonic(), []
    for number, (picked, is_new) in enumerate(rounds_of(rows, cell.requests, PAIRS_MAX)):
        if number >= PAIRS_MIN and time.monotonic() - began > limit_s:
            break
        if is_new or cell.cache == "empty":
            arms[OURS].ask("run", LAST, 2, True)  # with this step the requests before it end
            arms[OURS].ask("call", "back", "cell")
        order = ORDERS[number % len(ORDERS)]
        ms = {name: _ms(arms[name], picked, cell) for name in order}
        times.append([ms[NONE], ms[OURS], ms[AGAIN]])
    return {**asdict(cell), "times": times}


def _ms(arm: Arm, picked: list[Exchange], cell: Cell) -> float:
    found: float = arm.ask("run", picked, cell.answer, cell.is_forced, None, cell.temperature)["ms"]
    return found


def loaded(is_forced: bool, after: Path | None, end: float) -> dict[str, Arm]:
    """Three engines for 128 requests; lookahead times its kernels when the others are ready and `after` is there."""
    options = {**common(), "max_num_seqs": max(REQUESTS), "kv_cache_memory_bytes": 10 << 30}
    if not is_forced:
        options.pop("logits_processors")
    ready = Path(TEMP, "cells-none-ready")
    arms = {
        NONE: Arm(NONE, options, {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-none"}),
        OURS: ours(DRAFTED, options, after=str(ready)),
        AGAIN: Arm(AGAIN, options, {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-again"}),
    }
    for arm in arms.values():
        arm.start()
    for name in (NONE, AGAIN, OURS):
        if name == OURS:
            while after and not after.exists() and time.monotonic() < end:
                time.sleep(1)
            if after and not after.exists():
                print(f"cells.py: {after} did not come in time, so nothing was timed", file=sys.stderr, flush=True)
                os._exit(1)  # the engines would be waited for
            ready.touch()
        arms[name].answer()
    return arms


def rows(
    arms: dict[str, Arm], texts: dict[str, tuple[list[Exchange], list[Exchange]]], asked: Sequence[Cell], end: float
) -> Iterator[Row]:
    """Cell by cell; what is left of the time is shared among the cells that are left."""
    for arm in arms.values():  # what compiles at its first use
        for requests in REQUESTS:
            arm.ask("run", texts["no repeats"][0][:requests], 24, asked[0].is_forced, None, 0.7)
    for number, cell in enumerate(asked):
        if (left := end - time.monotonic()) <= 0:
            return
        yield measure(arms, cell, texts[cell.workload], left / (len(asked) - number) - 1)


def ratios(row: Row) -> tuple[list[float], list[float]]:
    """With lookahead over the mean of the two without; and without over without."""
    return [two / ((one + three) / 2) for one, two, three in row["times"]], [
        three / one for one, _, three in row["times"]
    ]


def pooled(found: list[list[float]]) -> tuple[float, float]:
    """The mean of the cells' means, and its upper bound; both as a share that is more."""
    means = [statistics.mean(cell) for cell in found]
    error = math.sqrt(sum(statistics.variance(cell) / len(cell) for cell in found)) / len(found)
    middle = statistics.mean(means)
    return middle - 1, middle + QUANTILE * error - 1


def table(results: list[Row]) -> str:
    """A line a cell, and the pooled figures."""
    lines = ["| workload | requests | temperature | answer | cache | rounds | without, ms | with | without again |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    order = {name: at for at, name in enumerate(WORKLOADS)}
    for row in sorted(results, key=lambda row: (order[row["workload"]], row["requests"], row["temperature"])):
        with_, again = (100 * (statistics.median(one) - 1) for one in ratios(row))
        ms = statistics.median(one for one, _, _ in row["times"])
        lines.append(
            f"| {row['workload']} | {row['requests']} | {row['temperature']:g} | {row['answer']} | {row['cache']} "
            f"| {len(row['times'])} | {ms:.2f} | {with_:+.1f} % | {again:+.1f} % |"
        )
    both = zip(*map(ratios, results), strict=True)
    words = [f"{name}: {middle:+.2%}, upper bound {upper:+.2%}"
             for name, (middle, upper) in zip(("with lookahead", "without again"), map(pooled, map(list, both)),
                                              strict=True)]  # fmt: skip
    return "\n".join([*lines, "", f"{len(results)} cells. " + "; ".join(words)])


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="of prepare_cells.py; with --table the results")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=545, help="in all, from the program's start")
    parser.add_argument("--requests", type=int, nargs="+", choices=REQUESTS, default=REQUESTS, help="of the cells")
    parser.add_argument("--sampled", action="store_true", help="text that the engine samples, at 1, 10 and 64 requests")
    parser.add_argument("--after", type=Path, help="load at once; kernels and rounds are timed when this file is there")
    parser.add_argument("--table", action="store_true")
    wanted = parser.parse_args()
    if wanted.table:
        found = wanted.texts.read_bytes()
        print(table(json.loads(gzip.decompress(found) if wanted.texts.suffix == ".gz" else found)))
        return
    if wanted.out is None:
        parser.error("OUT.json is missing")
    asked = [cell for cell in (sampled_cells() if wanted.sampled else cells()) if cell.requests in wanted.requests]
    if not asked:
        parser.error("--sampled has cells of 1, 10 and 64 requests")
    end = time.monotonic() + wanted.seconds
    arms, results = loaded(not wanted.sampled, wanted.after, end), []
    print(f"engines ready, {end - time.monotonic():.0f} s left", flush=True)
    for row in rows(arms, halves(wanted.texts), asked, end):
        results.append(row)
        wanted.out.write_text(json.dumps(results))
        print(json.dumps({**row, "times": row["times"][-1]}), flush=True)
    print(table(results))
    for arm in arms.values():
        arm.end()


if __name__ == "__main__":
    main()
