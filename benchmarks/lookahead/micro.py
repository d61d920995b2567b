"""Microseconds of the native core with its table full, one request at a time and 64 at a time; and its memory.

    python benchmarks/lookahead/micro.py [--entries 5000000] [--threads N]

The text is drawn by chance with phrases that come back, so that some rows have drafts and some have none.
Without --threads there are as many as an engine gives the cache: the option's default, but no more than cores.
A batch has its least time beside the median: on a shared machine the median holds the work of others too.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence

from windlass_lookahead import LookaheadCache, Options

AIM_REQUEST_US = 20.0
AIM_BATCH_US = 100.0
AIM_MEMORY_MIB = 1024.0
VOCABULARY = 131_072
ROWS = 64
LIMIT = 6


def filled(options: Options, chance: random.Random) -> tuple[LookaheadCache, list[list[int]]]:
    """A cache whose table is full, and phrases that it knows."""
    cache = LookaheadCache(options)
    phrases = [[chance.randrange(VOCABULARY) for _ in range(40)] for _ in range(500)]
    before = -1
    while cache.entries > before:  # full: no free slot is found any more
        before = cache.entries
        for _ in range(20):
            noise = [chance.randrange(VOCABULARY) for _ in range(2000)]
            cache.teach([], noise + chance.choice(phrases))
    return cache, phrases


def microseconds(work: Callable[[], object]) -> float:
    """Time of one call."""
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / 1000


def begin(cache: LookaheadCache, phrases: list[list[int]], chance: random.Random) -> list[str]:
    """Rows of which half quote a known phrase."""
    rows = [str(row) for row in range(ROWS)]
    for row in rows:
        noise = [chance.randrange(VOCABULARY) for _ in range(500)]
        cache.begin(row, noise + (chance.choice(phrases)[: chance.randrange(8, 20)] if int(row) % 2 else []))
    return rows


def step(cache: LookaheadCache, rows: list[str], chance: random.Random) -> tuple[float, float]:
    """Propose for the rows and accept all drafts and one token more: both times."""
    drafts = []
    proposed = microseconds(lambda: drafts.extend(cache.propose(rows, [LIMIT] * len(rows))))
    emitted = [[*draft.tokens, chance.randrange(VOCABULARY)] for draft in drafts]
    return proposed, microseconds(lambda: cache.accept(rows, emitted))


def figure(times_us: Sequence[float]) -> str:
    """Median and least of repeated times, in words."""
    return f"median {statistics.median(times_us):.1f} µs, least {min(times_us):.1f} µs"


def main() -> None:
    """Print medians beside their aims."""
    asked = argparse.ArgumentParser(description="cost of the lookahead core")
    asked.add_argument("--entries", type=int, default=5_000_000)
    asked.add_argument("--threads", type=int, default=min(Options().num_threads, os.cpu_count() or 1))
    words = asked.parse_args()
    chance = random.Random(1)  # noqa: S311  seeded, no secret
    options = Options(cache_size=words.entries, num_threads=words.threads, copy_length=LIMIT)
    cache, phrases = filled(options, chance)
    rows = begin(cache, phrases, chance)
    single = [sum(step(cache, [rows[turn % ROWS]], chance)) for turn in range(2000)]
    rows = begin(cache, phrases, chance)
    batches = [step(cache, rows, chance) for _ in range(200)]
    proposed, accepted = zip(*batches, strict=True)
    memory_mib = cache.memory_bytes / 2**20
    print(f"entries {cache.entries:,}, threads {words.threads}, cores {os.cpu_count()}")
    print(f"one request, propose + update: median {statistics.median(single):.1f} µs (aim {AIM_REQUEST_US:.0f})")
    print(f"batch of {ROWS}: propose {figure(proposed)}, update {figure(accepted)} (aim {AIM_BATCH_US:.0f} together)")
    print(f"memory {memory_mib:.0f} MiB (aim {AIM_MEMORY_MIB:.0f})")


if __name__ == "__main__":
    main()
