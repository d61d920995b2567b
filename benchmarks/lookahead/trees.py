"""A tree of drafts against one chain at equal verified tokens, on recorded text and without a GPU.

    python benchmarks/lookahead/trees.py --out FILE.jsonl.gz [--traces DIRECTORY]… [--only gsm8k,chat] [--processes 2]
    python benchmarks/lookahead/trees.py --drafting [--traces DIRECTORY]… [--only gsm8k,chat]

The core drafts for real and learns from each recorded token. Its `candidates` names what may follow a place; the
likeliest places below the text, best first, are the tree. `equal` compares a tree, and chains of their own that share a
prefix, with the chain that the core drafts at the same place, at its number of tokens. `timed` replays batches: the
speculation policy chooses how many drafts a step verifies, and a step takes what it took an H200 (`budgets.py`). A tree
mask is free there, so the times are the least that a tree takes. `seeds` compares Turbo with Raw by the hit length.

Every second request is for choices; the others are reported. Both halves learn from all requests before them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from replay import HERE, plans
from tree_replay import BARS, Arm, Batch, Floats, walk
from tree_shapes import Weighed, grow
from windlass.bench import report, tokens, traces
from windlass.bench.replay import Request

BUDGETS = (2, 4, 8, 16, 32)
"""Most drafted tokens of a row."""
LIMITS = (6, 16, 32)
"""The same in a batch: the engine's default, and long ones."""
BATCHES = (1, 10, 64)
RESAMPLES = 2000
SEED_LENGTH, SEED_PATHS = 7, 2
"""The seeds' copy_length and token_paths_top_k."""


Pair = tuple[Floats, Floats]
"""Numerators and denominators of the requests of a workload."""


def rate(pair: Pair) -> float:
    """Of the whole workload."""
    return float(pair[0].sum() / max(pair[1].sum(), 1e-9))


def ratio(pairs: Sequence[tuple[Pair, Pair]]) -> tuple[float, float, float]:
    """B over A, the geometric mean over workloads, and its bootstrap 95 % interval over requests."""
    chance = np.random.default_rng(1)
    middle, logs = 0.0, np.zeros(RESAMPLES)
    for a, b in pairs:
        middle += float(np.log(max(rate(b), 1e-9) / max(rate(a), 1e-9))) / len(pairs)
        drawn = chance.integers(0, len(a[0]), (RESAMPLES, len(a[0])))
        (over_a, under_a), (over_b, under_b) = [[part[drawn].sum(axis=1) + 1e-9 for part in one] for one in (a, b)]
        logs += np.log(over_b / under_b * under_a / over_a) / len(pairs)
    low, high = np.exp(np.quantile(logs, (0.025, 0.975)))
    return float(np.exp(middle)), float(low), float(high)


def equal_arms() -> Iterator[tuple[str, Arm]]:
    """By a key of budget and bar."""
    for budget in BUDGETS:
        for bar in BARS:
            for shape in ("chain", "tree", "rows"):
                yield f"{budget} {bar}", Arm(shape, budget, bar)


def seed_arms() -> Iterator[tuple[str, str, Arm]]:
    """By a key of bar and name: Raw; Turbo's chain; its tree of as many tokens, and of the tokens of two paths."""
    for bar in BARS:
        for name, shape, mode, times in (
            ("raw", "chain", 0, 1),
            ("turbo chain", "chain", 1, 1),
            ("turbo tree", "tree", 1, 1),
            ("turbo paths", "tree", 1, SEED_PATHS),
        ):
            yield bar, name, Arm(shape, SEED_LENGTH, bar, mode, times)


def timed_arms() -> Iterator[tuple[str, Arm]]:
    """By name."""
    yield "served", Arm("chain", LIMITS[0])
    yield "fixed", Arm("fixed", LIMITS[0])
    for limit in LIMITS:
        yield f"chain {limit}", Arm("chain", limit, "none")
        yield f"tree {limit}", Arm("tree", limit, "none")


def measure(name: str, warm: Sequence[Request], requests: Sequence[Request]) -> dict[str, Floats]:
    """All arms on one workload, by their keys."""
    found: dict[str, Floats] = {}
    for key, arm in equal_arms():
        found[f"equal {key} {arm.shape}"] = walk(arm, warm, requests)
    for bar, key, arm in seed_arms():
        found[f"seeds {bar} {key}"] = walk(arm, warm, requests)
    for size in BATCHES:
        for key, arm in timed_arms():
            found[f"timed {size} {key}"] = Batch(arm, size, warm).run(requests)
    print(f"▸ {name}", file=sys.stderr, flush=True)
    return found


Found = dict[str, dict[str, Floats]]
"""By workload, then by arm; of one half of the requests."""


def half(found: Found, first: int) -> Found:
    """Every second request."""
    return {name: {key: values[first::2] for key, values in arms.items()} for name, arms in found.items()}


def per_step(values: Floats) -> Pair:
    """Tokens a step."""
    return values[:, 0] + values[:, 2], values[:, 0]


def per_ms(values: Floats) -> Pair:
    """Tokens a millisecond of a request."""
    return values[:, 1], values[:, 0]


def per_iteration(values: Floats) -> Pair:
    """The seeds' global_average_hit_len."""
    return values[:, 2], values[:, 0]


def hit_rates(values: Floats) -> dict[str, float]:
    """The seeds' names of their metrics."""
    steps, hit_steps, hit, verified = values.sum(axis=0)
    return {
        "global_average_hit_len": round(hit / steps, 4),
        "valid_average_hit_len": round(hit / max(hit_steps, 1), 4),
        "hit_rate": round(hit_steps / steps, 4),
        "hit_valid_rate": round(hit / max(verified, 1), 4),
    }


def compared(
    found: Found, names: Sequence[str], keys: tuple[str, str], figure: Callable[[Floats], Pair]
) -> list[float]:
    """The second key over the first: the ratio and its interval."""
    return [
        round(value, 4)
        for value in ratio([(figure(found[name][keys[0]]), figure(found[name][keys[1]])) for name in names])
    ]


def equal_line(found: Found, names: Sequence[str], key: str) -> dict[str, Any]:
    """Of one budget and bar."""
    line: dict[str, Any] = {}
    for shape in ("chain", "tree", "rows"):
        arm = f"equal {key} {shape}"
        values = np.concatenate([found[name][arm] for name in names])
        steps, _, hit, verified = values.sum(axis=0)
        line[shape] = {"tokens": round(1 + hit / steps, 4), "verified": round(verified / steps, 4)}
        line[shape]["hits_per_verified"] = round(hit / max(verified, 1), 4)
        if shape != "chain":
            line[shape]["ratio"] = compared(found, names, (f"equal {key} chain", arm), per_step)
    return line


def seed_line(found: Found, names: Sequence[str], bar: str) -> dict[str, Any]:
    """Of one bar."""
    line: dict[str, Any] = {}
    for key in dict.fromkeys(key for _, key, _ in seed_arms()):
        arm = f"seeds {bar} {key}"
        line[key] = hit_rates(np.concatenate([found[name][arm] for name in names]))
        line[key]["ratio"] = compared(found, names, (f"seeds {bar} raw", arm), per_iteration)
    return line


def timed_line(found: Found, names: Sequence[str], size: int) -> dict[str, Any]:
    """Of one batch size: each arm against the chain as served, and each tree against the chain of its limit."""
    line: dict[str, Any] = {}
    for key, _ in timed_arms():
        arm = f"timed {size} {key}"
        ms, made, steps, verified = np.concatenate([found[name][arm] for name in names]).sum(axis=0)
        line[key] = {
            "ms": round(ms / made, 4),
            "tokens": round(made / steps, 4),
            "verified": round(verified / steps, 4),
        }
        line[key]["times_served"] = compared(found, names, (f"timed {size} served", arm), per_ms)
        if key.startswith("tree"):
            line[key]["times_chain"] = compared(found, names, (arm.replace("tree", "chain"), arm), per_ms)
    return line


def lines(found: Found, part: str, *, each: bool) -> Iterator[dict[str, Any]]:
    """Rows of all workloads together, and of each."""
    groups = {name: [name] for name in found if each} | {"all": list(found)}
    for workload, names in groups.items():
        head = {
            "half": part,
            "workload": workload,
            "requests": sum(len(found[name]["equal 2 served chain"]) for name in names),
        }
        for key in dict.fromkeys(key for key, _ in equal_arms()):
            budget, bar = key.split()
            yield {"part": "equal", **head, "drafts": int(budget), "bar": bar, **equal_line(found, names, key)}
        for bar in BARS:
            yield {"part": "seeds", **head, "bar": bar, **seed_line(found, names, bar)}
        for size in BATCHES:
            yield {"part": "timed", **head, "batch": size, **timed_line(found, names, size)}


def titled(name: str, plan: report.Plan) -> str:
    """A workload that begins with a warm cache says so."""
    return f"{name} (warm)" if plan.warm_files else name


def texts(directories: list[Path], only: Sequence[str]) -> Iterator[tuple[str, list[Request], list[Request]]]:
    """Of each workload that has a file: its name, warm and measured requests."""
    encode = tokens.tokenizer("tekken")
    for name, plan in plans(directories, "tekken"):
        if plan is None:
            print(f"{name}: {report.ABSENT}", file=sys.stderr)
            continue
        if only and titled(name, plan) not in only:
            continue
        measured = [trace for path in plan.trace_files for trace in traces.read(path)]
        warm = traces.unshared((trace for path in plan.warm_files for trace in traces.read(path)), measured)
        chosen = [request for request in report.requests(measured, encode) if len(request.output) > 1]
        yield titled(name, plan), report.requests(warm, encode), chosen


def drafting_us(warm: Sequence[Request], requests: Sequence[Request]) -> tuple[float, float]:
    """Medians of a chain's and a tree's time in the core: 32 tokens each, first 60 places of the last 60 requests."""
    cache = Arm("tree", BUDGETS[-1]).cache(warm)
    chains, trees, spent = list[int](), list[int](), 0

    def candidates(path: list[int]) -> tuple[Weighed, Weighed]:
        nonlocal spent
        began = time.perf_counter_ns()
        found = cache.native.candidates("row", path)
        spent += time.perf_counter_ns() - began
        return found

    for request in requests[-60:]:
        cache.begin("row", request.prompt)
        for token in request.output[:60]:
            began = time.perf_counter_ns()
            cache.propose(["row"], [BUDGETS[-1]], 0.0)
            chains.append(time.perf_counter_ns() - began)
            spent = 0
            grow(candidates, BUDGETS[-1], BUDGETS[-1])
            trees.append(spent)
            cache.accept(["row"], [[token]])
        cache.finish("row")
    return float(np.median(chains)) / 1000, float(np.median(trees)) / 1000


def main() -> None:
    """Write the rows, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("trees.jsonl.gz"))
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--drafting", action="store_true", help="time drafting instead")
    wanted = parser.parse_args()
    began = time.perf_counter()
    jobs = list(texts([*wanted.traces, HERE / "traces"], wanted.only))
    if not jobs:
        names = ", ".join(
            titled(name, plan) for name, plan in plans([*wanted.traces, HERE / "traces"], "tekken") if plan
        )
        parser.error(f"--only names no workload that has a file; there are {names}")
    if wanted.drafting:
        for name, warm, requests in jobs:
            chain, tree = drafting_us(warm, requests)
            print(f"{name}: {chain:.0f} µs a chain, {tree:.0f} µs a tree")
        return
    with ProcessPoolExecutor(wanted.processes) as pool:
        found = dict(zip((name for name, _, _ in jobs), pool.map(measure, *zip(*jobs, strict=True)), strict=True))
    rows = [
        row
        for first, part in enumerate(("report", "choice"))
        for row in lines(half(found, first), part, each=part == "report")
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    wanted.out.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{platform.machine()}, Python {platform.python_version()}, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
