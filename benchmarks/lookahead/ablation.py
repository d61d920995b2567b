"""On a GPU: what each rule of the speculation policy is worth, rule by rule off against on, interleaved.

    python ablation.py WORKLOADS.json.gz OUT.json [--seconds 1700] [--only "chat,agent"] [--batches 1,10,64]
                       [--rules "planning-price,batch-mean"] [--rounds 8]
    python ablation.py --table OUT.json

One engine with lookahead and one without stand beside one another, as in `on_device.py`. In each round the same
requests
run without lookahead, with all rules, and with each rule off, in an order that turns by one each round. The cache is
set
back before each run, and every set of rules keeps what its own policy has learned. The file is written after each
workload and batch. `--table` needs no GPU: it prints the median ratio of a rule off to all rules, with the bounds of
its
95 % interval. A rule whose interval is within 1 % of 1 everywhere may go (STYLE rule 20).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from windlass_lookahead.policy import RULES

NAMES = tuple(rule.name for rule in RULES)
NONE, ALL = "no lookahead", "all rules"
ROUNDS, BOUND = 8, 0.01
BATCHES = (1, 10, 64)
Times = dict[str, list[float]]
"""Milliseconds a token of each variant, round by round."""


def order(variants: Sequence[str], number: int) -> list[str]:
    """The variants of one round: it turns by one each round, and every second round runs backwards."""
    at = number % len(variants)
    turned = [*variants[at:], *variants[:at]]
    return turned[::-1] if number % 2 else turned


def ratios(times: Times, rule: str) -> list[float]:
    """How much longer a token takes with the rule off, round by round."""
    return [off / on for off, on in zip(times[rule], times[ALL], strict=True)]


def bounds(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the median at 95 %, by order statistics."""
    from on_device import upper_of_median

    return -upper_of_median([-value for value in values])[0], upper_of_median(values)[0]


def verdict(intervals: Iterable[tuple[float, float]]) -> str:
    """Whether the rule earns its place, by the intervals of all workloads and batches."""
    found = list(intervals)
    if any(low > 1 + BOUND for low, _ in found):
        return "stays: without it a row is slower"
    if any(high < 1 - BOUND for _, high in found):
        return "goes: without it a row is faster"
    if all(low >= 1 - BOUND and high <= 1 + BOUND for low, high in found):
        return "goes: no row moves by 1 %"
    return "open: more rounds are needed"


def table(results: list[dict[str, Any]]) -> list[str]:
    """Markdown: a line for each rule, its least and greatest median ratio, and the verdict."""
    rules = [name for name in results[0]["times"] if name not in (NONE, ALL)]
    lines = ["| rule | on a card before | off / on: least, greatest | verdict |", "| --- | --- | --- | --- |"]
    ran = {rule.name: "yes" if rule.ran_on_card else "no" for rule in RULES}
    for rule in rules:
        rows = [(one["workload"], one["batch"], ratios(one["times"], rule)) for one in results]
        medians = sorted((statistics.median(found), f"{name} at {batch}") for name, batch, found in rows)
        extremes = ", ".join(f"{ratio:.3f} ({place})" for ratio, place in (medians[0], medians[-1]))
        lines.append(f"| {rule} | {ran[rule]} | {extremes} | {verdict(bounds(found) for *_, found in rows)} |")
    return lines


def measure(arms: tuple[Any, Any], name: str, rows: list[Any], batch: int, asked: argparse.Namespace) -> dict[str, Any]:
    """All rounds of one workload at one batch."""
    from on_device import LAST, OUTPUT_TOKENS, rounds_of

    plain, ours = arms
    variants = [NONE, ALL, *asked.rules]
    times: Times = {variant: [] for variant in variants}
    for number, (picked, _) in enumerate(rounds_of(rows, batch, asked.rounds)):
        for variant in order(variants, number):
            if variant != NONE:
                ours.ask("run", LAST, 2, True)  # with this step the requests before it end
                ours.ask("call", "back", name)
                ours.ask("call", "without", [] if variant == ALL else [variant])
            arm = plain if variant == NONE else ours
            times[variant].append(arm.ask("run", picked, OUTPUT_TOKENS, True)["ms"])
    return {"workload": name, "batch": batch, "times": times}


def run(asked: argparse.Namespace) -> None:
    """As many workloads and batches as fit into the time."""
    from on_device import LAST, arms_of, workloads

    until = time.monotonic() + asked.seconds
    found = workloads(asked.workloads)
    if unknown := {*asked.only} - {*found}:
        raise SystemExit(f"--only names {', '.join(sorted(unknown))}; there are: {', '.join(found)}")
    arms, results = arms_of(6), []
    arms[1].ask("call", "base", "warm-up", [])
    for arm in arms:
        for batch in asked.batches:
            arm.ask("run", found["gsm8k"][1][:batch], 24, True)
    for name in asked.only or found:
        arms[1].ask("run", LAST, 2, True)
        arms[1].ask("call", "base", name, found[name][0])
        for batch in asked.batches:
            if time.monotonic() > until:
                break
            results.append(measure(arms, name, found[name][1], batch, asked))
            asked.out.write_text(json.dumps(results))
            print(
                name,
                batch,
                {key: round(statistics.median(one), 3) for key, one in results[-1]["times"].items()},
                flush=True,
            )
    for arm in arms:
        arm.end()


def names(text: str) -> list[str]:
    """A list of rules; argparse reports one that does not exist."""
    if unknown := {*text.split(",")} - {*NAMES}:
        raise argparse.ArgumentTypeError(f"no rule {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")
    return text.split(",")


def main() -> None:
    """Measure, or print the table of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=Path, nargs="?", help="made by prepare_device.py")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--table", type=Path, help="print the table of this file")
    parser.add_argument("--seconds", type=float, default=1700)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--batches", type=lambda text: [int(one) for one in text.split(",")], default=BATCHES)
    parser.add_argument("--rules", type=names, default=list(NAMES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    if asked.table:
        print("\n".join(table(json.loads(asked.table.read_text()))))
    elif asked.workloads and asked.out:
        run(asked)
    else:
        parser.error("name the workloads and the file to write, or --table")


if __name__ == "__main__":
    main()
