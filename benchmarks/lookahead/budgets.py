"""What choosing the number of verified drafts is worth, on recorded text and without a GPU.

    python budgets.py WORKLOADS.json.gz [--only gsm8k,chat] [--batches 1,10,64]

An engine that schedules ahead fixes how many drafts a step verifies before it knows them. Our cache drafts for real, a
step of so many tokens takes what it took an H200, and the host takes no time. `stock` chooses by the drafts of the step
before, as vLLM 0.32 does, `mean` by those or by what a step had on average, whichever is more, `oracle` by the
drafts themselves; `all` verifies everything. Milliseconds a token of one request, accepted and verified drafts a step.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from windlass_lookahead import Draft, LookaheadCache, Options
from windlass_lookahead.policy import DEFAULTS

Floats = NDArray[np.float64]
Exchange = tuple[list[int], list[int]]

TOKENS, MS = (1, 8, 16, 64, 72, 128, 256, 448), (3.28, 3.36, 3.42, 4.07, 4.2, 4.9, 6.5, 9.3)
"""Of one step on an H200, Qwen2-7B's shape in fp8: by runs of 2026-11-22 at 1, 10 and 64 tokens; past them put together
from what seven tokens a row cost another run (3, 32 and 128 % at 1, 10 and 64 rows)."""
MOST, OUTPUT_TOKENS, MEMORY_ROWS = 6, 96, 16
ROWS = {1: 24, 10: 60, 64: 128}


def step_ms(tokens: int) -> float:
    """Graphs are captured for 1, 2, 4 and multiples of 8 tokens."""
    padded = next((size for size in (1, 2, 4) if tokens <= size), -(-tokens // 8) * 8)
    return float(np.interp(padded, TOKENS, MS))


COSTS = np.array([step_ms(tokens) for tokens in range(1024)])
VOCABULARY = 152064
"""Words of a row of logits, in Qwen2-7B's shape."""
JUDGING_MS = (DEFAULTS["judge_step_us"] + DEFAULTS["judge_logit_us"] * VOCABULARY * np.arange(len(COSTS))) / 1000
"""Beside the model, by rows of logits: as the GPU integration charges them."""


def gains(survivals: Floats) -> Floats:
    """Tokens that the best 0, 1, … drafts save, by their probabilities."""
    return np.concatenate(([0.0], np.cumsum(np.sort(survivals.ravel())[::-1])))


def budget(saved: Floats, rows: int) -> int:
    """Drafts to verify: the most tokens for the time."""
    costs = COSTS[rows : rows + len(saved)]
    return int(np.argmax((rows + saved) / costs))


class Mean:
    """The drafts of the step before, or a step's average, whichever is more."""

    def __init__(self) -> None:
        self._mean: Floats | None = None

    def __call__(self, before: Floats, _: Floats) -> int:
        """Drafts to verify."""
        rows, saved = len(before), gains(before)
        if self._mean is None or len(self._mean) != len(saved):
            self._mean = np.zeros(len(saved))
        if (before == 1.0).all(axis=1).any():  # somebody is new
            return budget(saved, rows)
        self._mean = self._mean + min(1.0, rows / MEMORY_ROWS) * (saved / rows - self._mean)
        return budget(np.maximum(saved, self._mean * rows), rows)


POLICIES: dict[str, Callable[[], Callable[[Floats, Floats], int]]] = {
    "none": lambda: lambda _, __: 0,
    "stock": lambda: lambda before, _: budget(gains(before), len(before)),
    "mean": Mean,
    "oracle": lambda: lambda _, now: budget(gains(now), len(now)),
    "all": lambda: lambda _, now: now.size,
}


@dataclass(slots=True)
class Row:
    """One request under way: its text, how far it is, and its drafts of two steps."""

    name: str
    text: list[int]
    at: int = 0
    drafts: Draft | None = None
    before: Draft | None = None


def survivals(drafts: Sequence[Draft | None]) -> Floats:
    """[rows, MOST]; a row without any step so far is thought to have good drafts, as in the engine."""
    found = np.zeros((len(drafts), MOST))
    for row, draft in enumerate(drafts):
        if draft is None:
            found[row] = 1.0
        else:
            found[row, : len(draft.probabilities)] = draft.probabilities
    return found


def admitted(now: Floats, number: int) -> NDArray[np.int64]:
    """How many drafts of each row are among the best of all."""
    chosen = np.zeros(now.size, dtype=bool)
    chosen[np.argsort(-now.ravel(), kind="stable")[:number]] = True
    return np.asarray(chosen.reshape(now.shape).sum(axis=1))


def replay(rows: Sequence[Exchange], batch: int, choose: Callable[[Floats, Floats], int]) -> tuple[float, ...]:
    """Milliseconds a token of one request, accepted drafts and verified drafts of a row's step."""
    cache = LookaheadCache(Options(voc_size=152064, cache_size=500_000, copy_length=MOST))
    waiting: Iterator[tuple[int, Exchange]] = iter(enumerate(rows))
    active: list[Row] = []
    spent_ms, made, steps, verified = 0.0, 0, 0, 0
    while True:
        while len(active) < batch and (came := next(waiting, None)):
            number, (prompt, output) = came
            cache.begin(str(number), prompt)
            active.append(Row(str(number), output[:OUTPUT_TOKENS]))
        if not active:
            return spent_ms * batch / made, made / steps - 1, verified / steps
        now = survivals([row.drafts or Draft([], []) for row in active])
        number = choose(survivals([row.before for row in active]), now)
        emitted = [_emit(row, most) for row, most in zip(active, admitted(now, number), strict=True)]
        spent_ms, made = spent_ms + COSTS[len(active) + number], made + sum(map(len, emitted))
        steps, verified = steps + len(active), verified + number
        names = [row.name for row in active]
        cache.accept(names, emitted)
        for row, draft in zip(active, cache.propose(names, [MOST] * len(names)), strict=True):
            row.before, row.drafts = row.drafts, draft
        for row in active:
            if row.at >= len(row.text):
                cache.finish(row.name)
        active = [row for row in active if row.at < len(row.text)]


def _emit(row: Row, most: int) -> list[int]:
    drafted, hits = (row.drafts.tokens[:most] if row.drafts else []), 0
    while hits < len(drafted) and row.at + hits < len(row.text) and drafted[hits] == row.text[row.at + hits]:
        hits += 1
    tokens = row.text[row.at : row.at + hits + 1]
    row.at += len(tokens)
    return tokens


def main() -> None:
    """A table of all policies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", type=Path, help="made by prepare_device.py")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--batches", type=lambda text: [int(one) for one in text.split(",")], default=list(ROWS))
    arguments = parser.parse_args()
    found: dict[str, list[Exchange]] = json.loads(gzip.decompress(arguments.workloads.read_bytes()))
    chance = random.Random(1)  # noqa: S311 - no secret
    apart = [chance.sample(range(1000, 150000), 300) for _ in range(200)]
    found["no repeats"] = [(one[:200], one[200:]) for one in apart]
    print("| workload | batch |", " | ".join(POLICIES), "|")
    print("| --- " * (2 + len(POLICIES)) + "|")
    for name in arguments.only or found:
        rows = [row for row in found[name] if row[1]]
        for batch in arguments.batches:
            ran = [replay(rows[: ROWS.get(batch, 2 * batch)], batch, make()) for make in POLICIES.values()]
            cells = [f"{ms:.2f} ({hit:.2f} of {drafts:.2f})" for ms, hit, drafts in ran]
            print(f"| {name} | {batch} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
