"""On a GPU: what the context of vLLM's cost tables is worth to lookahead.

    python prepare_cells.py CELLS.json.gz --alpaca-eval CLONE --wmt CLONE --tau-bench CLONE
    python costs_context.py CELLS.json.gz OUT.json [--seconds 400] [--requests 10 64]
    python costs_context.py OUT.json --table

vLLM times steps of 1, 2, 4, … tokens for its tables and gives each token a request of its own, as long as
`VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN` says, 8,192 tokens unless it is set. A draft reads no context of its
own, but the tables count one for it. Three engines for 256 requests of 8,192 tokens stand beside one another: without
lookahead, with it and the tables that `windlass run` has made, and with it and the engine's own. The texts are those
of `cells.py`, at temperature 0. Their order goes round all six, and the cache begins anew in each round.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from arms import Arm, Exchange
from cells import DRAFTED, PAIRS_MAX, WORKLOADS, halves
from on_device import LAST, OUTPUT_TOKENS, TEMP, common, ours, rounds_of
from windlass.launch.lookahead import CONTEXT_TOKENS, COSTS_CONTEXT
from windlass.lookahead.settings import VARIABLE

NONE, SHORT, LONG = "none", f"{CONTEXT_TOKENS} tokens", "8,192 tokens"
ORDERS = tuple(itertools.permutations((NONE, SHORT, LONG)))
REQUESTS, PAIRS_MIN, DRAWS = (10, 64), 6, 2000
Row = dict[str, Any]


def loaded() -> dict[str, Arm]:
    """The three engines; those with lookahead time their kernels one after the other."""
    options = {**common(), "max_num_seqs": 256, "max_model_len": 8192, "kv_cache_memory_bytes": 12 << 30}
    arms, before = {NONE: Arm(NONE, options, {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-none"})}, NONE
    for name, tokens in ((SHORT, CONTEXT_TOKENS), (LONG, 8192)):
        arm = ours(DRAFTED, options, after=str(Path(TEMP, f"ready-{before}")))
        known = json.loads(arm.variables[VARIABLE]) | {"counts_dir": f"{TEMP}/counts-{tokens}"}
        arm.variables |= {VARIABLE: json.dumps(known), COSTS_CONTEXT: str(tokens)}
        arm.variables |= {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-{tokens}"}
        arms[name], before = arm, name
    for arm in arms.values():
        arm.start()
    for name, arm in arms.items():
        arm.answer()
        Path(TEMP, f"ready-{name}").touch()
    return arms


def measure(arms: dict[str, Arm], name: str, requests: int, rows: list[Exchange], limit_s: float) -> Row:
    """Rounds of the three engines, as many as the time has, and at least six."""
    drafting = [arms[SHORT], arms[LONG]]
    for arm in drafting:
        arm.ask("run", LAST, 2, True)
        arm.ask("call", "base", "cell", [])
    began, times = time.monotonic(), []
    for number, (picked, _) in enumerate(rounds_of(rows, requests, PAIRS_MAX)):
        if number >= PAIRS_MIN and time.monotonic() - began > limit_s:
            break
        for arm in drafting:
            arm.ask("run", LAST, 2, True)  # with this step the requests before it end
            arm.ask("call", "back", "cell")
        ms = {one: arms[one].ask("run", picked, OUTPUT_TOKENS, True)["ms"] for one in ORDERS[number % len(ORDERS)]}
        times.append([ms[NONE], ms[SHORT], ms[LONG]])
    return {"workload": name, "requests": requests, "times": times}


def table(results: list[Row]) -> str:
    """A line for each workload and number of requests: medians of the rounds' ratios, 95 % by resampling."""
    compared = ((SHORT, NONE), (LONG, NONE), (SHORT, LONG))
    head = ("workload", "requests", "rounds", *(f"{one} against {other}" for one, other in compared))
    lines = [f"| {' | '.join(head)} |", "| --- | --- | --- | --- | --- | --- |"]
    for row in results:
        ratios = [[one[at] / one[under] for one in row["times"]] for at, under in ((1, 0), (2, 0), (1, 2))]
        cells = (row["workload"], row["requests"], len(row["times"]), *map(_bounded, ratios))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _bounded(ratios: list[float]) -> str:
    chance = random.Random(1)  # noqa: S311 - no secret
    drawn = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return f"{statistics.median(ratios):.2f} ({drawn[DRAWS // 40]:.2f} to {drawn[-DRAWS // 40]:.2f})"


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, help="of prepare_cells.py; with --table the results")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=400, help="in all, from the program's start")
    parser.add_argument("--requests", type=int, nargs="+", default=REQUESTS)
    parser.add_argument("--table", action="store_true")
    wanted = parser.parse_args()
    if wanted.table:
        data = wanted.texts.read_bytes()
        print(table(json.loads(gzip.decompress(data) if wanted.texts.suffix == ".gz" else data)))
        return
    if wanted.out is None:
        parser.error("OUT.json is missing")
    end = time.monotonic() + wanted.seconds
    arms, texts, results = loaded(), halves(wanted.texts), []
    print(f"engines ready, {end - time.monotonic():.0f} s left", flush=True)
    for arm in arms.values():  # what compiles at its first use
        for requests in wanted.requests:
            arm.ask("run", texts["no repeats"][0][:requests], 24, True)
    asked = [(name, requests) for requests in sorted(wanted.requests, reverse=True) for name in WORKLOADS]
    for at, (name, requests) in enumerate(asked):
        left_s = end - time.monotonic()
        results.append(measure(arms, name, requests, texts[name][1], max(0.0, left_s / (len(asked) - at) - 1)))
        wanted.out.write_text(json.dumps(results))
        print(json.dumps(results[-1]), flush=True)
    print(table(results))
    for arm in arms.values():
        arm.end()


if __name__ == "__main__":
    main()
