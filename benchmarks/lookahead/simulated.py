"""Lookahead's whole loop on recorded text without a GPU: the native threads, in real time, beside a simulated device.

    python simulated.py WORKLOADS.json.gz "chat" 64 [--runs 6] [--threads 2] [--always] [--host 1.3]
                        [--without planning-price,batch-mean]
    python simulated.py CELLS.json.gz translation 10 --cells [--host 1.7] [--without planning-worth]

A step takes what one of so many tokens took an H200 (`budgets.py`). Its record, its answer and its drafts go through
the memory that a device would share; how many drafts it verifies is chosen a step before. It waits for drafts as the
kernel does: for a while, and only where the next step verifies any; `--always` for all that are planned. Two
processors are needed, and nothing beside. With `--host` a step is no shorter than so many times what the engine's own
thread took for it on a quiet machine: what a slow one makes of it. Milliseconds a token with lookahead against the
steps without, and what the host took of them.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from budgets import COSTS, JUDGING_MS, MOST, OUTPUT_TOKENS, Exchange
from cells import halves
from on_device import workloads
from rule_switch import RuleSwitch
from windlass.lookahead.draft_budgets import DraftBudgets
from windlass_lookahead import LookaheadCache, Options
from windlass_lookahead.policy import config
from windlass_lookahead.round_trip import RECORD_HEADER, RECORDS, Places, RoundTrip

SPAN = MOST + 1
PATIENCE_S, ROW_S = 500e-6, 10e-6
"""As in `on_device`, which wants the engine."""
FIRST_S = 0.05
"""Of the step that reads the prompts."""
HOST_MS = {"plain": (2.0, 0.015), "planned": (2.4, 0.0167), "verifying": (2.5, 0.0188)}
"""Of the engine's thread in a step, and for each row, by what the step does with drafts: an H200's by `steps.py`
with 10 and 64 rows, the scheduler's part by reckoning."""


@dataclass(slots=True)
class Row:
    """One request under way."""

    name: str
    prompt: list[int]
    output: list[int]
    at: int = 0
    drafts: list[int] = field(default_factory=list)
    sure: list[float] = field(default_factory=list)
    planned: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    @property
    def is_done(self) -> bool:
        """Whether its text is at its end."""
        return self.at >= len(self.output)

    def emit(self, verified: int) -> list[int]:
        """The tokens of a step: the first of so many drafts that its text has, and one more."""
        hits = 0
        while (
            hits < verified and self.at + hits < len(self.output) and self.drafts[hits] == self.output[self.at + hits]
        ):
            hits += 1
        emitted = self.output[self.at : self.at + hits + 1]
        self.at += len(emitted)
        return emitted


@dataclass(slots=True)
class Found:
    """Of one run."""

    ms: float = 0.0
    plain_ms: float = 0.0
    steps: int = 0
    rows: int = 0
    verified: int = 0
    accepted: int = 0
    verifying: int = 0
    waited_s: float = 0.0
    missed: int = 0
    native_s: float = 0.0
    took_s: float = 0.0

    def __str__(self) -> str:
        """A line."""
        return (
            f"{self.plain_ms:.2f} / {self.ms:.2f} ms a token, {self.ms / self.plain_ms:.3f} times as long; of a row's "
            f"step {self.verified / self.rows:.2f} drafts verified, {self.accepted / self.rows:.2f} accepted; "
            f"{self.verifying} of {self.steps} steps verified any; {1e6 * self.waited_s / self.steps:.0f} µs a step "
            f"waited, {self.missed} steps in vain; {self.native_s / self.took_s:.2f} processors in the native threads"
        )


class Memory:
    """What the native threads and a device of so many rows share."""

    def __init__(self, rows: int, most: int) -> None:
        self.records = np.zeros((RECORDS, rows, RECORD_HEADER + most + 1), dtype=np.int32)
        self.tokens = np.zeros((rows, most), dtype=np.int64)
        self.sure = np.zeros((rows, most), dtype=np.float32)
        self.doorbell, self.completed = ctypes.c_uint32(0), ctypes.c_uint32(0)
        self.folder = tempfile.TemporaryDirectory()
        self.budgets = DraftBudgets(self.folder.name, "0")
        self.places = Places(
            *(part.ctypes.data for part in (self.records, self.tokens, self.sure)),
            ctypes.addressof(self.doorbell),
            ctypes.addressof(self.completed),
            ctypes.addressof(ctypes.c_char.from_buffer(self.budgets.memory)),
        )

    def record(self, number: int, place: int, row: Row, emitted: list[int], verified: int, source: int) -> None:
        """Write what a step emitted of a row, of so many drafts; `source` is whose they were."""
        record, length = self.records[number % RECORDS, place], len(row.prompt) + row.at
        record[:RECORD_HEADER] = (number, len(emitted), max(0, verified + 1 - len(emitted)), length, source)
        record[RECORD_HEADER : RECORD_HEADER + len(emitted)] = emitted[::-1]


class Device(Memory):
    """Memory that both see, and the clock of the steps."""

    def __init__(self, rows: int, threads: int, host: float, without: list[str], *, always: bool) -> None:
        super().__init__(rows, MOST)
        self.always, self.host = always, host
        options = Options(voc_size=152064, max_seq_len=2048, cache_size=500_000, copy_length=MOST, num_threads=threads)
        self.cache = LookaheadCache(options)
        self.trip = self.first = RoundTrip(self.cache, self.places, rows, MOST, SPAN, policy=config(without))
        self.switch = RuleSwitch(
            self.first, lambda numbers: RoundTrip(self.cache, self.places, rows, MOST, SPAN, policy=numbers)
        )
        self.number = 0
        self.ended: list[str] = []

    def run(self, name: str, picked: list[Exchange], tokens: int = OUTPUT_TOKENS) -> Found:
        """All requests at once, to their ends."""
        alive = [Row(f"{name}-{at}", prompt, text[:tokens]) for at, (prompt, text) in enumerate(picked)]
        everyone, begun = list(alive), [(row.name, row.prompt) for row in alive]
        found, budget, missed, end_s = Found(), 0, False, time.perf_counter() + FIRST_S
        found.took_s, found.native_s = -time.perf_counter(), -_native_s()
        while alive:
            plans = [MOST if planned else 0 for planned in self.budgets.of(row.name for row in alive)]
            self._submit(begun, alive, wanted=any(plans))
            is_first, begun = bool(begun), []
            are_planned = any(row.planned for row in alive)
            verified = self._emit(alive, budget, missed, found if not is_first else None)
            if not is_first:
                end_s += self._step_ms(len(alive), verified, are_planned=are_planned) / 1e3
            left = [row for row in alive if not row.is_done]
            for row, plan in zip(alive, plans, strict=True):
                row.planned = min(plan, max(0, len(row.output) - row.at - 1))
            budget = self._choose(left)
            _spin(end_s)
            self.doorbell.value = self.number
            missed = self._take(alive, None if is_first else found) if any(plans) and (budget or self.always) else False
            end_s = time.perf_counter()
            for row in alive:
                row.first_s, row.last_s = row.first_s or end_s, end_s
            self.ended = [row.name for row in alive if row.is_done]
            alive = left
        found.took_s += time.perf_counter()
        found.native_s += _native_s()
        made = max(1, sum(len(row.output) - 1 for row in everyone))
        found.ms = 1e3 * sum(row.last_s - row.first_s for row in everyone) / made
        found.plain_ms = sum(self._plain_ms(len(row.output), everyone) for row in everyone) / made
        return found

    def _step_ms(self, rows: int, verified: int, *, are_planned: bool) -> float:
        judging_ms = JUDGING_MS[rows + verified] if verified else 0.0
        once_ms, row_ms = HOST_MS["verifying" if verified else "planned" if are_planned else "plain"]
        return max(float(COSTS[rows + verified] + judging_ms), self.host * (once_ms + row_ms * rows))

    def _plain_ms(self, length: int, rows: list[Row]) -> float:
        """Milliseconds from its first to its last token without lookahead."""
        lengths = sorted(len(row.output) for row in rows)
        left = (sum(one > at for one in lengths) for at in range(1, length))
        return sum(self._step_ms(count, 0, are_planned=False) for count in left)

    def back(self, path: Path) -> None:
        """Return to a state of the cache; what ended requests still had to share goes with the one that is left."""
        self.trip.submit(self.number, self.ended, [], [])
        self.ended = []
        time.sleep(0.05)
        self.cache.save(path.with_name("left"), "simulated")
        self.cache.load(path, "simulated")

    def _submit(self, begun: list[tuple[str, list[int]]], rows: list[Row], *, wanted: bool) -> None:
        self.number += 1
        self.trip.submit(self.number, self.ended, begun, [row.name for row in rows], wanted=wanted)
        self.ended = []

    def _emit(self, rows: list[Row], budget: int, missed: bool, found: Found | None) -> int:
        """Verify the likeliest drafts and write the step record; how many were verified."""
        while self.completed.value < self.number - RECORDS:
            pass
        allotted = allot(rows, budget)
        for place, (row, count) in enumerate(zip(rows, allotted, strict=True)):
            emitted = row.emit(count)
            self.record(self.number, place, row, emitted, count, missed)
            if found:
                found.accepted += len(emitted) - 1
        if found:
            found.steps, found.rows = found.steps + 1, found.rows + len(rows)
            found.verified, found.verifying = found.verified + sum(allotted), found.verifying + (sum(allotted) > 0)
        return sum(allotted)

    def _choose(self, rows: list[Row]) -> int:
        if not rows:
            return 0
        planned, count = [row.planned for row in rows], len(rows)
        costs = COSTS[count : count + sum(planned) + 1].copy()
        costs[1:] += JUDGING_MS[count + 1 : count + sum(planned) + 1]
        return self.trip.choose([row.name for row in rows], planned, costs, count)

    def _take(self, rows: list[Row], found: Found | None) -> bool:
        """Whether the host was too late; one that is two steps late is not waited for."""
        begun_s = time.perf_counter()
        until_s = begun_s + PATIENCE_S + ROW_S * len(rows)
        while self.completed.value == self.number - 1 and time.perf_counter() < until_s:
            pass
        came = self.completed.value == self.number
        if found:
            found.waited_s += time.perf_counter() - begun_s
            found.missed += not came
        for place, row in enumerate(rows):
            row.drafts = self.tokens[place].tolist() if came else [0] * MOST
            row.sure = self.sure[place].tolist() if came else [0.0] * MOST
        return not came


class SimulatedArm:
    """A device in the place of an engine: answers what `ablation.py` asks an arm."""

    def __init__(self, rows: int, threads: int = 2) -> None:
        """At most `rows` requests at a time."""
        self._device = Device(rows, threads, 0.0, [], always=False)
        self._folder = Path(self._device.folder.name)
        self._device.cache.save(self._folder / "empty", "simulated")
        self._runs = 0

    def ask(self, word: str, *values: Any) -> Any:  # noqa: ANN401 - whatever is answered
        """Run requests, or call a method by its name."""
        method, given = (word, values) if word != "call" else (values[0], values[1:])
        return getattr(self, method)(*given)

    def run(self, picked: list[Exchange], tokens: int, forced: bool) -> dict[str, float]:
        """Milliseconds a token."""
        self._runs += 1
        return {"ms": self._device.run(f"run {self._runs}", picked, tokens).ms}

    def base(self, name: str, seen: list[Exchange]) -> None:
        """Make a state of the cache that `back` returns to."""
        self._device.back(self._folder / "empty")
        for prompt, output in seen:
            self._device.cache.teach(prompt, output)
        self._device.cache.save(self._folder / f"base {name}", "simulated")

    def back(self, name: str) -> None:
        """Return to a state."""
        self._device.back(self._folder / f"base {name}")

    def without(self, rules: list[str], copy: int = 0) -> None:
        """Run with these rules off."""
        self._device.trip = self._device.switch.to(rules, copy)

    def figures(self) -> dict[str, Any]:
        """The counts of the cache and of the round trip."""
        return asdict(self._device.trip.counts()) | asdict(self._device.cache.metrics())

    def card(self) -> str:
        """What is measured."""
        return "simulated"

    def end(self) -> None:
        """End the threads."""
        self._device.switch.close()
        self._device.first.close()
        self._device.folder.cleanup()


def _native_s() -> float:
    """Processor time of all threads but this one."""
    return time.process_time() - time.thread_time()


def _spin(until_s: float) -> None:
    while time.perf_counter() < until_s:
        pass


def allot(rows: list[Row], budget: int) -> list[int]:
    """Drafts of each row that are verified: those that most probably survive."""
    likely = sorted(
        ((float(np.prod(row.sure[: at + 1])), place) for place, row in enumerate(rows) for at in range(row.planned)),
        reverse=True,
    )
    counts = [0] * len(rows)
    for _, place in likely[:budget]:
        counts[place] += 1
    return counts


def main() -> None:
    """A line for each run, and the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=Path, help="made by prepare_device.py, or with --cells by prepare_cells.py")
    parser.add_argument("workload")
    parser.add_argument("batch", type=int)
    parser.add_argument("--cells", action="store_true", help="texts of prepare_cells.py; each run with an empty cache")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--always", action="store_true", help="wait for all drafts that are planned")
    parser.add_argument("--host", type=float, default=0.0, help="times as slow as a quiet machine; 0: takes no time")
    parser.add_argument("--without", type=lambda text: text.split(","), default=[], help="rules of the policy, off")
    arguments = parser.parse_args()
    if arguments.cells:
        seen, rows = [], halves(arguments.workloads)[arguments.workload][1]
    else:
        seen, rows = workloads(arguments.workloads)[arguments.workload]
    device = Device(arguments.batch, arguments.threads, arguments.host, arguments.without, always=arguments.always)
    for prompt, output in seen:
        device.cache.teach(prompt, output)
    with tempfile.TemporaryDirectory() as folder:
        empty, at, ratios = Path(folder) / "empty", 0, []
        device.cache.save(empty, "simulated")
        for run in range(arguments.runs):
            is_over = at + arguments.batch > len(rows)
            if is_over or arguments.cells:
                device.back(empty)
            at = 0 if is_over else at
            picked = [rows[(at + number) % len(rows)] for number in range(arguments.batch)]
            at += arguments.batch
            found = device.run(str(run), picked)
            ratios.append(found.ms / found.plain_ms)
            print(found, flush=True)
    print(f"median {statistics.median(ratios):.3f}; {device.trip.counts()}")
    device.trip.close()


if __name__ == "__main__":
    main()
