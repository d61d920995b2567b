"""On a GPU: what each rule of the speculation policy is worth, off against on, interleaved, in ten minutes.

    python ablation.py WORKLOADS.json.gz OUT.jsonl [--seconds 540] [--only "chat,agent"] [--batches 64,10,1]
                       [--rules "planning-price,batch-mean"] [--output-tokens 64] [--simulated]

One engine with lookahead runs all the time; its worker switches rules between two runs. A round takes the same
requests with each rule off, and with all rules after every fourth run and at both ends. One more variant switches
nothing off: its figures are the noise. The cache is set back before each run. Each variant keeps what its own policy
has learned.

`--seconds` counts from the start of the program. The time has four parts: a pass over every cell with the rules that no
GPU has run, a pass with the others, more rounds of the rules that are still open, and a third of it for all rules off
together that nothing speaks for. A line of OUT is written after each run. `ablation_table.py` prints the tables.
`--simulated` needs no GPU: the native threads meet the device of `simulated.py`, which shows that everything works.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ablation_table import AGAIN, ALL, TOGETHER, is_settled, may_go, pairs_of
from windlass_lookahead.policy import RULES

NAMES = tuple(rule.name for rule in RULES)
LARGE_BATCHES = ("full-step", "row-groups")
"""Rules that change no decision for 16 rows or fewer, but where prompts fill a step: those of ten requests never do."""
SMALL_BATCHES = ("batch-mean",)
ROWS_SMALL_MAX = 16
BATCHES = (64, 10, 1)
WORKLOADS = ("specbench-translation", "chat", "humaneval", "templated", "gsm8k warm", "no repeats", "repeats",
             "agent", "code-edit-diff", "specbench-summarization")  # fmt: skip
"""In the order in which the time goes to them; the other seven are of the same kinds."""
OUTPUT_TOKENS = 64
CONTROL_EVERY = 4
JOINT_SHARE = 1 / 3
WARM_TOKENS = 24
RUN_S = {1: 0.3, 10: 0.45, 64: 1.0}
"""Of a run that nothing is known of yet, by its requests; from the fourteenth run."""
COUNTS = ("steps", "missed", "wait_us", "num_iters", "lookahead_len", "hit_len")

Rows = list[dict[str, Any]]


def relevant(rules: Sequence[str], batch: int) -> list[str]:
    """The rules that can change a decision in a batch of this size."""
    without = SMALL_BATCHES if batch > ROWS_SMALL_MAX else LARGE_BATCHES
    return [rule for rule in rules if rule not in without]


def sequence(variants: Sequence[str], number: int) -> list[str]:
    """The runs of one round: the variants turn by one each round, every second round runs backwards."""
    at = number % len(variants)
    turned = [*variants[at:], *variants[:at]][:: -1 if number % 2 else 1]
    groups = [turned[at : at + CONTROL_EVERY] for at in range(0, len(turned), CONTROL_EVERY)]
    return [ALL, *(one for group in groups for one in [*group, ALL])]


@dataclass
class Cell:
    """One workload at one number of requests."""

    workload: str
    batch: int
    rounds: Iterator[tuple[list[Any], bool]]
    run_s: float
    visits: int = 0


@dataclass
class Bench:
    """An arm, and the file that its runs are written to."""

    arm: Any
    file: TextIO
    output_tokens: int
    rows: Rows = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic

    def write(self, row: dict[str, Any]) -> None:
        """Append a line, so that a run that is killed keeps what it has."""
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()

    def visit(self, cell: Cell, variants: Sequence[str], off: dict[str, list[str]], stage: str) -> None:
        """One round of these variants; `off` has the rules that each switches off."""
        picked, _ = next(cell.rounds)
        begun_s, runs = self.clock(), sequence(variants, cell.visits)
        place = {"stage": stage, "workload": cell.workload, "batch": cell.batch, "round": cell.visits}
        for at, variant in enumerate(runs):
            found = self.run(cell.workload, picked, off.get(variant, []), copy=int(variant == AGAIN))
            row = {**place, "at": at, "variant": variant, **found}
            self.rows.append(row)
            self.write(row)
        cell.visits += 1
        cell.run_s = (self.clock() - begun_s) / len(runs)
        print(f"{stage}: {cell.workload} at {cell.batch}, {len(runs)} runs of {cell.run_s:.2f} s", flush=True)

    def run(self, workload: str, picked: list[Any], rules: list[str], copy: int) -> dict[str, Any]:
        """These requests with these rules off, from the workload's cache."""
        self.switch(workload, rules, copy)
        before = self.arm.ask("call", "figures")
        ms = self.arm.ask("run", picked, self.output_tokens, True)["ms"]
        after = self.arm.ask("call", "figures")
        return {"ms": ms, **{name: round(after[name] - before[name], 1) for name in COUNTS}}

    def switch(self, workload: str, rules: list[str], copy: int) -> None:
        """Set the cache back, and switch the rules."""
        from on_device import LAST

        self.arm.ask("run", LAST, 2, True)  # with this step the requests before it end
        self.arm.ask("call", "back", workload)
        self.arm.ask("call", "without", rules, copy)

    def fits(self, cell: Cell, variants: Sequence[str], until: float) -> bool:
        """Whether a round of these variants ends before `until`."""
        return self.clock() + len(sequence(variants, 0)) * cell.run_s <= until


SINGLY = {rule: [rule] for rule in NAMES}


def one_pass(bench: Bench, cells: Sequence[Cell], rules: Sequence[str], until: float, stage: str) -> None:
    """Every cell once, as far as the time goes."""
    for cell in cells:
        variants = [*relevant(rules, cell.batch), AGAIN]
        if len(variants) > 1 and bench.fits(cell, variants, until):
            bench.visit(cell, variants, SINGLY, stage)


def more_rounds(bench: Bench, cells: Sequence[Cell], rules: Sequence[str], until: float) -> None:
    """The cell with the fewest rounds next, with the rules that its number of requests leaves open."""
    while True:
        pairs = pairs_of(bench.rows)
        fitting = []
        for cell in cells:
            left = [rule for rule in relevant(rules, cell.batch) if not is_settled(pairs, rule, cell.batch)]
            if left and bench.fits(cell, [*left, AGAIN], until):
                fitting.append((cell, [*left, AGAIN]))
        if not fitting:
            return
        cell, variants = min(fitting, key=lambda one: one[0].visits)
        bench.visit(cell, variants, SINGLY, "more")


def together(bench: Bench, cells: Sequence[Cell], rules: Sequence[str], until: float) -> None:
    """All rules off at once that no figure so far speaks for: the policy that would be left."""
    found = may_go(pairs_of(bench.rows), rules)
    bench.write({"together": found})
    print(f"off together: {', '.join(found) or 'none'}", flush=True)
    variants = [TOGETHER] * 2  # two runs between two with all rules
    while found and (fitting := [cell for cell in cells if bench.fits(cell, variants, until)]):
        for cell in fitting:
            if bench.fits(cell, variants, until):
                bench.visit(cell, variants, {TOGETHER: found}, "together")


def cells_of(found: dict[str, Any], asked: argparse.Namespace) -> list[Cell]:
    """In order: the first workload at every number of requests, and so on."""
    from on_device import rounds_of

    return [
        Cell(name, batch, rounds_of(found[name][1], batch, 10**6), RUN_S.get(batch, 1.0))
        for name in asked.only for batch in asked.batches
    ]  # fmt: skip


def warm(bench: Bench, rows: list[Any], asked: argparse.Namespace) -> None:
    """What compiles at its first use, and the first steps of each variant's policy."""
    for batch, variant in itertools.product(asked.batches, [ALL, *asked.rules, AGAIN]):
        bench.switch("warm-up", SINGLY.get(variant, []), int(variant == AGAIN))
        bench.arm.ask("run", rows[:batch], WARM_TOKENS, True)


def arm_of(asked: argparse.Namespace) -> Any:  # noqa: ANN401 - either arm
    """The engine, or the simulated device."""
    if asked.simulated:
        from simulated import SimulatedArm

        return SimulatedArm(max(asked.batches))
    from on_device import common, ours

    arm = ours(6, common())
    arm.start()
    arm.answer()
    return arm


def prepared(bench: Bench, found: dict[str, Any], asked: argparse.Namespace) -> None:
    """The state of the cache that each workload begins with, and a warm engine."""
    from on_device import LAST

    for name in ("warm-up", *asked.only):
        bench.arm.ask("run", LAST, 2, True)
        bench.arm.ask("call", "base", name, found[name][0] if name in found else [])
    warm(bench, found["gsm8k"][1], asked)


def run(asked: argparse.Namespace) -> None:
    """All four parts."""
    from on_device import workloads

    begun_s, found = time.monotonic(), workloads(asked.workloads)
    if unknown := {*asked.only} - {*found}:
        raise SystemExit(f"--only names {', '.join(sorted(unknown))}; there are: {', '.join(found)}")
    arm, cells = arm_of(asked), cells_of(found, asked)
    with asked.out.open("a") as file:
        bench = Bench(arm, file, asked.output_tokens)
        start_s = time.monotonic() - begun_s
        prepared(bench, found, asked)
        ready_s = time.monotonic() - begun_s
        seconds = {"seconds": asked.seconds, "start_s": round(start_s, 1), "ready_s": round(ready_s, 1)}
        bench.write({"card": arm.ask("call", "card"), **seconds, "output_tokens": asked.output_tokens})
        print(f"ready after {ready_s:.0f} s", flush=True)
        measure(bench, cells, asked.rules, begun_s + ready_s, begun_s + asked.seconds)
    arm.end()


def measure(bench: Bench, cells: Sequence[Cell], rules: Sequence[str], ready_s: float, end_s: float) -> None:
    """The rules that no GPU has run first, then the others, then what is open, then all together."""
    joint_s = end_s - JOINT_SHARE * (end_s - ready_s)
    never = {rule.name for rule in RULES if not rule.ran_on_card}
    first = [rule for rule in rules if rule in never]
    if first:  # a pass without rules would still measure the noise
        one_pass(bench, cells, first, joint_s, "never ran")
    one_pass(bench, cells, [rule for rule in rules if rule not in never], joint_s, "others")
    more_rounds(bench, cells, rules, joint_s)
    together(bench, cells, rules, end_s)


def names(text: str) -> list[str]:
    """A list of rules; argparse reports one that does not exist."""
    if unknown := {*text.split(",")} - {*NAMES}:
        raise argparse.ArgumentTypeError(f"no rule {', '.join(sorted(unknown))}; there are: {', '.join(NAMES)}")
    return text.split(",")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=Path, help="made by prepare_device.py")
    parser.add_argument("out", type=Path, help="lines are appended")
    parser.add_argument("--seconds", type=float, default=540, help="of the whole program")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(WORKLOADS), help="workloads")
    parser.add_argument("--batches", type=lambda text: [int(one) for one in text.split(",")], default=BATCHES)
    parser.add_argument("--rules", type=names, default=list(NAMES))
    parser.add_argument("--output-tokens", type=int, default=OUTPUT_TOKENS)
    parser.add_argument("--simulated", action="store_true", help="without a GPU")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
