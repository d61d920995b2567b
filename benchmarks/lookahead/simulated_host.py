"""A draft model on the host's real cores beside a simulated device whose steps are long: where does it pay, and rest?

    python simulated_host.py [--shape 160m] [--bits 8] [--threads 1] [--step-ms 16.6] [--acceptance 0.6 0.8]

The decoder has the shape of a real draft model and random weights, so each draft takes its time. Its tokens are
replaced by the recorded ones with the chance `--acceptance`. The order is that of `host_drafts_on_device.py`: a new
policy sees two batches of ten, then one request and ten are measured. A step sleeps for `--step-ms`, longer with rows
and drafts, and waits for drafts as the kernel does. Two processors are needed, and nothing beside. Choose a shape and
threads whose draft takes about a third of the step, as 0.5B does beside a 70B model.

Printed is how many times as fast as the same device without drafts it was: the median of the runs, and each.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import numpy as np
from budgets import Exchange
from host_draft import CONFIGS, random_weights
from simulated import FIRST_S, PATIENCE_S, ROW_S, Memory, Row, allot
from windlass_lookahead import LookaheadCache, Options
from windlass_lookahead._core import HostDrafter, model_drafter, recorded_drafter
from windlass_lookahead.draft_model import Settings, shape_of
from windlass_lookahead.round_trip import CACHE, LATE, RoundTrip

MOST, ROWS = 4, 16
VOCABULARY = 32_000
PROMPT_TOKENS, OUTPUT_TOKENS, TEXTS = 200, 128, 128
REQUESTS, LEARNING_ROWS, LEARNING_RUNS = (1, 10), 10, 2
ROW_MS, DRAFT_MS = 0.09, 0.02
"""That a row and a draft add to a step; about an H100's with a 70B model in four bits."""
LOOK_S = 5e-5


class Device(Memory):
    """Steps that sleep, so that the decoder has the cores."""

    def __init__(self, step_ms: float, drafter: HostDrafter | None) -> None:
        """Without a drafter nothing is drafted, since the texts do not repeat."""
        super().__init__(ROWS, MOST)
        self.step_ms = step_ms
        self.cache = LookaheadCache(Options(voc_size=VOCABULARY, max_seq_len=512, copy_length=MOST))
        self.trip = RoundTrip(self.cache, self.places, ROWS, MOST, MOST + 1)
        if drafter is not None:
            self.trip.add_host_model(drafter, MOST, VOCABULARY)
        self.number = self.runs = 0
        self.ended: list[str] = []

    def run(self, picked: list[Exchange]) -> float:
        """All requests at once, to their ends; milliseconds a token."""
        self.runs += 1
        rows = [Row(f"{self.runs}-{at}", prompt, output) for at, (prompt, output) in enumerate(picked)]
        alive, budget, is_late = list(rows), 0, False
        while alive:
            is_first = alive[0].at == 0
            plans = [MOST if planned else 0 for planned in self.budgets.of(row.name for row in alive)]
            self._submit(alive, plans, is_first=is_first)
            verified = self._emit(alive, budget, is_late=is_late)
            for row, plan in zip(alive, plans, strict=True):
                row.planned = min(plan, max(0, len(row.output) - row.at - 1))
            left = [row for row in alive if not row.is_done]
            budget = self._choose(left, is_decoding=not is_first)
            patience_s = PATIENCE_S + ROW_S * len(alive) + 1e-6 * self.trip.begin_wait() if budget else 0.0
            time.sleep(FIRST_S if is_first else self._ms(len(alive), verified) / 1000)
            self.doorbell.value = self.number
            is_late = budget > 0 and not self._came(patience_s)
            now_s = time.perf_counter()
            for place, row in enumerate(alive):
                row.drafts, row.sure = self.tokens[place].tolist(), self.sure[place].tolist()
                row.first_s, row.last_s = row.first_s or now_s, now_s
            self.ended = [row.name for row in alive if row.is_done]
            alive = left
        return 1000 * sum(row.last_s - row.first_s for row in rows) / sum(len(row.output) - 1 for row in rows)

    def close(self) -> None:
        """End the threads."""
        self.trip.close()
        self.folder.cleanup()

    def _ms(self, rows: int, drafts: int) -> float:
        return self.step_ms + ROW_MS * (rows - 1) + DRAFT_MS * drafts

    def _submit(self, alive: list[Row], plans: list[int], *, is_first: bool) -> None:
        self.number += 1
        begun = [(row.name, row.prompt) for row in alive] if is_first else []
        self.trip.submit(self.number, self.ended, begun, [row.name for row in alive], wanted=any(plans))
        self.ended = []

    def _emit(self, rows: list[Row], budget: int, *, is_late: bool) -> int:
        """Verify the likeliest drafts, none of late ones, and write the records; how many the step verified."""
        allotted = allot(rows, budget)
        for place, (row, count) in enumerate(zip(rows, allotted, strict=True)):
            emitted = row.emit(0 if is_late else count)
            self.record(self.number, place, row, emitted, count, LATE if is_late and count else CACHE)
        return sum(allotted)

    def _choose(self, rows: list[Row], *, is_decoding: bool) -> int:
        if not rows:
            return 0
        planned = [row.planned for row in rows]
        costs = np.array([self._ms(len(rows), drafts) for drafts in range(sum(planned) + 1)])
        return self.trip.choose([row.name for row in rows], planned, costs, len(rows), decoding=is_decoding)

    def _came(self, patience_s: float) -> bool:
        until_s = time.perf_counter() + patience_s
        while self.completed.value != self.number and time.perf_counter() < until_s:
            time.sleep(LOOK_S)
        return self.completed.value == self.number


class Texts:
    """Prompts and what follows them, in which no token comes twice, one after the other."""

    def __init__(self) -> None:
        chance = random.Random(1)  # noqa: S311 - no secret
        ids = range(1000, VOCABULARY)
        rows = [chance.sample(ids, PROMPT_TOKENS + OUTPUT_TOKENS) for _ in range(TEXTS)]
        self.rows: list[Exchange] = [(row[:PROMPT_TOKENS], row[PROMPT_TOKENS:]) for row in rows]
        self.at = 0

    def next(self, count: int) -> list[Exchange]:
        """From the front again at the end."""
        found = [self.rows[(self.at + number) % TEXTS] for number in range(count)]
        self.at += count
        return found


def main() -> None:
    """A line for each acceptance and number of requests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=CONFIGS, default="160m")
    parser.add_argument("--bits", type=int, choices=(8, 4), default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--step-ms", type=float, default=16.6)
    parser.add_argument("--acceptance", type=float, nargs="+", default=(0.6, 0.8))
    parser.add_argument("--runs", type=int, default=4)
    wanted = parser.parse_args()
    chosen = Settings(64, 1024, wanted.bits, wanted.bits, wanted.threads, "best")
    inner, texts = model_drafter(random_weights(shape_of(CONFIGS[wanted.shape]), chosen), 64), Texts()
    plain = Device(wanted.step_ms, None)
    without = {count: statistics.median(plain.run(texts.next(count)) for _ in range(3)) for count in REQUESTS}
    plain.close()
    for acceptance in wanted.acceptance:
        device = Device(wanted.step_ms, recorded_drafter(inner, acceptance, int(100 * acceptance), texts.rows))
        for _ in range(LEARNING_RUNS):
            device.run(texts.next(LEARNING_ROWS))
        for count in REQUESTS:
            device.run(texts.next(count))
            times = [without[count] / device.run(texts.next(count)) for _ in range(wanted.runs)]
            each = " ".join(f"{one:.2f}" for one in times)
            print(
                f"acceptance {acceptance:g}, {count} at a time: {statistics.median(times):.2f} times ({each})",
                flush=True,
            )
        device.close()


if __name__ == "__main__":
    main()
