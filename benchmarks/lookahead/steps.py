"""On a GPU: where the time of a step goes, with lookahead and without, and what planning by draft budgets is worth.

    python steps.py WORKLOADS.json.gz OUT.json [--seconds 240] [--only "no repeats"] [--batches 1,10] [--rounds 3]
                    [--policies stock,budgets] [--traces FOLDER] [--cells]

Two engines as in `on_device.py`, which picks the requests as this does. Each policy meets the same requests with the
same cache; every step of every run is written. `--traces` records one more run of each, kernel by kernel; recording
slows the host for the rest of the run. With `--cells` the texts are those of `prepare_cells.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from arms import Arm
from cells import halves
from on_device import LAST, OUTPUT_TOKENS, common, ours, rounds_of, workloads

POLICIES = ("stock", "budgets")
NAMES = ("gsm8k warm", "humaneval", "agent", "chat", "no repeats", "code-edit-diff")
BATCHES, ROUNDS = (1, 10, 64), 3


def plain(arm: Arm, name: str, rows: list[Any], batch: int, rounds: int) -> dict[str, Any]:
    """The same runs without lookahead."""
    runs = [run(arm, picked) for picked, _ in rounds_of(rows, batch, rounds)]
    ms = statistics.median(one["ms"] for one in runs)
    return {"policy": "none", "workload": name, "batch": batch, "ms": ms, "runs": runs}


def run(arm: Arm, picked: list[Any]) -> dict[str, Any]:
    """One, with its steps."""
    arm.ask("call", "steps")
    ms = arm.ask("run", picked, OUTPUT_TOKENS, True)["ms"]
    return {"ms": ms, "kinds": arm.ask("call", "steps"), "steps": arm.ask("call", "each")}


def trace(arm: Arm, path: Path, picked: list[Any]) -> None:
    """One run more, with its kernels written down."""
    arm.ask("call", "trace", None)
    arm.ask("run", picked, OUTPUT_TOKENS, True)
    arm.ask("call", "trace", str(path))


def renew(arm: Arm, name: str) -> None:
    """Before text would be met again."""
    arm.ask("run", LAST, 2, True)
    arm.ask("call", "back", name)


def measure(arm: Arm, policy: str, name: str, rows: list[Any], batch: int, rounds: int) -> dict[str, Any]:
    """Some runs of one policy."""
    arm.ask("call", "policy_of", policy)
    runs = []
    for picked, is_new in rounds_of(rows, batch, rounds):
        if is_new:
            renew(arm, name)
        before = arm.ask("call", "figures")
        one = run(arm, picked)
        after = arm.ask("call", "figures")
        counts = {key: after[key] - before[key] for key in after}
        iterations = max(1.0, counts["num_iters"])
        runs.append(one | {"hit": counts["hit_len"] / iterations, "drafted": counts["lookahead_len"] / iterations})
    ms = statistics.median(one["ms"] for one in runs)
    return {"policy": policy, "workload": name, "batch": batch, "ms": ms, "runs": runs}


def arms_of(rows: list[Any], batches: list[int]) -> tuple[Arm, Arm]:
    """The engine without lookahead and the one with it, warm, with their clocks."""
    options = common()
    if (most := max(batches)) > options["max_num_seqs"]:
        options |= {"max_num_seqs": most, "kv_cache_memory_bytes": 10 << 30}
    none = Arm("none", {**options, "worker_cls": "steps_worker.PlainWorker"}, {"VLLM_CACHE_ROOT": "/tmp/vllm-none"})  # noqa: S108
    arm = ours(6, options, "steps_worker.StepsWorker")
    for one in (none, arm):
        one.start()
    for one in (none, arm):
        one.answer()
    arm.ask("call", "base", "warm-up", [])
    for one in (none, arm):
        for batch in batches:
            one.ask("run", rows[:batch], 24, True)
        one.ask("call", "clock")
    return none, arm


def main() -> None:
    """All policies, as far as the time goes; the file is written after each row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", type=lambda text: text.split(","), default=NAMES)
    parser.add_argument("--batches", type=lambda text: [int(one) for one in text.split(",")], default=BATCHES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--policies", type=lambda text: text.split(","), default=POLICIES)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--cells", action="store_true")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    found, results = (halves if arguments.cells else workloads)(arguments.workloads), []
    none, arm = arms_of(found["chat" if arguments.cells else "gsm8k"][1], arguments.batches)
    print(f"ready, {until - time.monotonic():.0f} s left", flush=True)
    for name in arguments.only:
        arm.ask("run", LAST, 2, True)
        arm.ask("call", "base", name, found[name][0])
        for batch in arguments.batches:
            for policy in ("none", *arguments.policies):
                if time.monotonic() > until:
                    break
                rows, words = found[name][1], (name, found[name][1], batch, arguments.rounds)
                one = plain(none, *words) if policy == "none" else measure(arm, policy, *words)
                results.append(one)
                if arguments.traces:
                    path = arguments.traces / f"{name}-{batch}-{policy}.json.gz".replace(" ", "-")
                    if policy != "none":
                        renew(arm, name)
                    trace(none if policy == "none" else arm, path, rows[:batch])
                arguments.out.write_text(json.dumps(results))
                print(policy, name, batch, [round(each["ms"], 2) for each in one["runs"]], flush=True)
                for kind in one["runs"][-1]["kinds"]:
                    print("    ", kind, flush=True)
    for one in (none, arm):
        one.end()


if __name__ == "__main__":
    main()
