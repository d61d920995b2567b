"""On a GPU: where the time of a step with lookahead goes, and what planning by promises is worth.

    python steps.py WORKLOADS.json.gz OUT.json [--seconds 240]

The engine of `on_device.py` alone; the figures without lookahead are those that it measured. Each policy meets the same
requests with the same cache.
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


def measure(arm: Arm, policy: str, name: str, rows: list[Any], batch: int) -> dict[str, Any]:
    """Some runs of one policy."""
    arm.ask("call", "policy_of", policy)
    arm.ask("run", LAST, 2, True)
    arm.ask("call", "back", name)
    arm.ask("call", "steps")
    before, times = arm.ask("call", "figures"), []
    for at in range(ROUNDS):
        picked = [rows[(at * batch + number) % len(rows)] for number in range(batch)]
        times.append(arm.ask("run", picked, OUTPUT_TOKENS, True)["ms"])
    after = arm.ask("call", "figures")
    counts = {key: after[key] - before[key] for key in after}
    iterations = max(1.0, counts["num_iters"])
    per_step = {"hit": counts["hit_len"] / iterations, "drafted": counts["lookahead_len"] / iterations}
    found = {"policy": policy, "workload": name, "batch": batch, "ms": statistics.median(times), "runs": times}
    return found | per_step | {"steps": arm.ask("call", "steps")}


def main() -> None:
    """All policies, as far as the time goes; the file is written after each row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=240)
    said = parser.parse_args()
    until = time.monotonic() + said.seconds
    found, results = workloads(said.workloads), []
    arm = ours(6, common(), "steps_worker.StepsWorker")
    arm.start()
    arm.answer()
    print(f"ready, {until - time.monotonic():.0f} s left", flush=True)
    arm.ask("call", "base", "warm-up", [])
    for batch in BATCHES:
        arm.ask("run", found["gsm8k"][1][:batch], 24, True)
    arm.ask("call", "clock")
    for name in NAMES:
        arm.ask("run", LAST, 2, True)
        arm.ask("call", "base", name, found[name][0])
        for batch in BATCHES:
            for policy in POLICIES:
                if time.monotonic() > until:
                    break
                results.append(measure(arm, policy, name, found[name][1], batch))
                said.out.write_text(json.dumps(results))
                row = {key: value for key, value in results[-1].items() if key not in {"steps", "runs"}}
                print(row, flush=True)
                for kind in results[-1]["steps"]:
                    print("    ", kind, flush=True)
        if name == NAMES[0]:
            arm.ask("call", "policy_of", "stock")
            arm.ask("call", "profiled", True)
            arm.ask("run", found[name][1][:1], OUTPUT_TOKENS, True)
            said.out.with_suffix(".profile.txt").write_text(arm.ask("call", "profiled", False))
    arm.end()


if __name__ == "__main__":
    main()
