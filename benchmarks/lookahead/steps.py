"""On a GPU: where the time of a step goes, with lookahead and without, and what planning by promises is worth.

    python steps.py WORKLOADS.json.gz OUT.json [--seconds 240] [--only "no repeats"] [--batches 1,10] [--traces FOLDER]

Two engines as in `on_device.py`. Each policy meets the same requests with the same cache. `--traces` records one more
run of each, kernel by kernel; recording slows the host for the rest of the run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from arms import Arm
from on_device import LAST, OUTPUT_TOKENS, common, ours, workloads

POLICIES = ("stock", "promises")
NAMES = ("gsm8k warm", "humaneval", "agent", "chat", "no repeats", "code-edit-diff")
BATCHES, ROUNDS = (1, 10, 64), 3


def plain(arm: Arm, name: str, rows: list[Any], batch: int) -> dict[str, Any]:
    """The same runs without lookahead."""
    arm.ask("call", "steps")
    times = [arm.ask("run", picked(rows, batch, at), OUTPUT_TOKENS, True)["ms"] for at in range(ROUNDS)]
    found = {"policy": "none", "workload": name, "batch": batch, "ms": statistics.median(times), "runs": times}
    return found | {"steps": arm.ask("call", "steps")}


def picked(rows: list[Any], batch: int, at: int) -> list[Any]:
    """The requests of a round."""
    return [rows[(at * batch + number) % len(rows)] for number in range(batch)]


def trace(arm: Arm, path: Path, rows: list[Any], batch: int) -> None:
    """One run more, with its kernels written down."""
    arm.ask("call", "trace", None)
    arm.ask("run", picked(rows, batch, ROUNDS), OUTPUT_TOKENS, True)
    arm.ask("call", "trace", str(path))


def measure(arm: Arm, policy: str, name: str, rows: list[Any], batch: int) -> dict[str, Any]:
    """Some runs of one policy."""
    arm.ask("call", "policy_of", policy)
    arm.ask("run", LAST, 2, True)
    arm.ask("call", "back", name)
    arm.ask("call", "steps")
    before, times = arm.ask("call", "figures"), []
    for at in range(ROUNDS):
        times.append(arm.ask("run", picked(rows, batch, at), OUTPUT_TOKENS, True)["ms"])
    after = arm.ask("call", "figures")
    counts = {key: after[key] - before[key] for key in after}
    iterations = max(1.0, counts["num_iters"])
    per_step = {"hit": counts["hit_len"] / iterations, "drafted": counts["lookahead_len"] / iterations}
    found = {"policy": policy, "workload": name, "batch": batch, "ms": statistics.median(times), "runs": times}
    return found | per_step | {"steps": arm.ask("call", "steps")}


def arms_of(rows: list[Any], batches: list[int]) -> tuple[Arm, Arm]:
    """The engine without lookahead and the one with it, warm, with their clocks."""
    none = Arm("none", {**common(), "worker_cls": "steps_worker.PlainWorker"}, {"VLLM_CACHE_ROOT": "/tmp/vllm-none"})  # noqa: S108
    arm = ours(6, common(), "steps_worker.StepsWorker")
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
    parser.add_argument("--traces", type=Path)
    said = parser.parse_args()
    until = time.monotonic() + said.seconds
    found, results = workloads(said.workloads), []
    none, arm = arms_of(found["gsm8k"][1], said.batches)
    print(f"ready, {until - time.monotonic():.0f} s left", flush=True)
    for name in said.only:
        arm.ask("run", LAST, 2, True)
        arm.ask("call", "base", name, found[name][0])
        for batch in said.batches:
            for policy in ("none", *POLICIES):
                if time.monotonic() > until:
                    break
                rows = found[name][1]
                one = plain(none, name, rows, batch) if policy == "none" else measure(arm, policy, name, rows, batch)
                results.append(one)
                if said.traces:
                    path = said.traces / f"{name}-{batch}-{policy}.json.gz".replace(" ", "-")
                    trace(none if policy == "none" else arm, path, rows, batch)
                said.out.write_text(json.dumps(results))
                print({key: value for key, value in one.items() if key not in {"steps", "runs"}}, flush=True)
                for kind in one["steps"]:
                    print("    ", kind, flush=True)
    for one in (none, arm):
        one.end()


if __name__ == "__main__":
    main()
