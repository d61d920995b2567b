"""Milliseconds of prompts of 6,000 to 64,000 tokens, and of a decoded token: one GPU, a split prompt, and TP 2.

    python prefill.py OUT.jsonl [--seconds 540] [--shape llama-3-8b] [--arms one,sp2,tp2/tp2-no-link,sp2-no-link]

Arms between commas run beside one another and take turns, so that each pair meets the same machine; `/` ends them and
starts the next ones, where the time allows. A row a measurement, printed as it comes; the table at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arms import START_S, Arm, begun

import models

LENGTHS = {6_000: 5, 16_000: 3, 32_000: 3, 64_000: 2}
"""Tokens of a prompt, and how often it is measured."""
STEP, CONTEXT = 8_192, 65_536
DECODES = {1: 3, 16: 3}
TOKENS = 128
GROUPS = "one,sp2,tp2/tp2-no-link,sp2-no-link/one-fp8,sp2-fp8,tp2-fp8/tp2-fp8-no-link,sp2-fp8-no-link"
LEFT_S = 110
"""A group is not started with less time than this."""


def main() -> None:
    """Measure until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--shape", choices=models.SHAPES, default="llama-3-8b")
    parser.add_argument("--arms", default=GROUPS)
    parser.add_argument("--work", type=Path, default=Path("/tmp/sp"))  # noqa: S108 - the machine is ours
    wanted = parser.parse_args()
    end = time.monotonic() + wanted.seconds
    try:
        for number, group in enumerate(wanted.arms.split("/")):
            if end - time.monotonic() < LEFT_S:
                print(f"not run: {group}", flush=True)
                continue
            run(group.split(","), wanted, wanted.work / f"prefill-{number}", end)
    finally:
        print(table(wanted.out), flush=True)


def run(names: list[str], wanted: argparse.Namespace, folder: Path, end: float) -> None:
    """One group of arms, from its start to its end."""
    shape = models.SHAPES[wanted.shape]
    each = shape["num_hidden_layers"] * shape["num_key_value_heads"] * shape["head_dim"] * 2 * 2
    arms: dict[str, Arm] = {}
    for few in ([name for name in names if "tp2" in name], [name for name in names if "tp2" not in name]):
        # tensor parallelism keeps half of the heads on each GPU
        cache = (CONTEXT + 1024) * each // (2 if few and "tp2" in few[0] else 1)
        arms |= begun(few, options(models.shape(wanted.shape, wanted.work), cache), folder)
    limit_s = min(START_S, left(end))  # of all of them: they began together
    arms = {name: arms[name] for name in names if name in arms and arms[name].is_ready(limit_s)}
    try:
        with wanted.out.open("a") as out:
            for row in measured(arms, end):
                out.write(json.dumps({"shape": wanted.shape, **row}) + "\n")
                out.flush()
                print(json.dumps(row), flush=True)
    except RuntimeError as why:
        print(why, flush=True)
    finally:
        for arm in arms.values():
            arm.end()


def left(end: float) -> float:
    """Seconds."""
    return max(1.0, end - time.monotonic())


def options(model: Path, cache: int) -> dict[str, Any]:
    """What all engines have."""
    return {
        "model": str(model), "load_format": "dummy", "skip_tokenizer_init": True, "enable_prefix_caching": False,
        "max_model_len": CONTEXT, "max_num_seqs": 16, "max_num_batched_tokens": STEP, "disable_log_stats": False,
        "gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": cache, "seed": 1,
        "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 16]},
    }  # fmt: skip


def measured(arms: dict[str, Arm], end: float) -> Iterator[dict[str, Any]]:
    """Rows until the time is over: each length on each arm, in turns; the first of each warms and is left out."""
    for length, times in LENGTHS.items():
        for turn in range(times + 1):
            for name, arm in arms.items():
                if time.monotonic() > end - 5:
                    return
                found = arm.ask("first_token", models.prompt(length, seed=100 * length + turn), limit_s=60)
                if turn:
                    yield {"what": f"prompt of {length}", "arm": name, "turn": turn, "ms": round(found, 2)}
        if length == min(LENGTHS):
            yield from decoding(arms, end)


def decoding(arms: dict[str, Arm], end: float) -> Iterator[dict[str, Any]]:
    """Milliseconds a token of requests with short prompts."""
    for count, times in DECODES.items():
        for turn in range(times + 1):
            for name, arm in arms.items():
                if time.monotonic() > end - 5:
                    return
                asked = [models.prompt(200, seed=1000 * turn + one) for one in range(count)]
                found = arm.ask("decode", asked, TOKENS, limit_s=60)
                if turn:
                    yield {"what": f"a token, {count} requests", "arm": name, "turn": turn, "ms": round(found, 3)}


def table(path: Path) -> str:
    """Medians, by what is measured and arm."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    by: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        by.setdefault(row["what"], {}).setdefault(row["arm"], []).append(row["ms"])
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    lines = [f"| ms | {' | '.join(arms)} |", "| --- |" + " --- |" * len(arms)]
    for what, found in by.items():
        cells = (f"{statistics.median(found[arm]):.2f}" if arm in found else "" for arm in arms)
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
