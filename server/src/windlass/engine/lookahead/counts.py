"""The counts of each engine's cache, left in a file for the API's process, which turns them into metrics.

A count file is written whole or not at all, about once a second. The names are those of the log line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from windlass_lookahead.metrics import LINE, Metrics

TOTALS = ("num_iters", "hit_iters", "hit_len", "invalid_len", "requests", "requests_ended")
"""Names whose figures only grow."""
MEANINGS = {
    "num_iters": "verified iterations",
    "hit_iters": "iterations with at least one accepted draft token",
    "hit_len": "accepted draft tokens",
    "invalid_len": "drafted tokens that were not accepted",
    "hit_rate": "hit_iters / num_iters",
    "global_average_hit_len": "hit_len / num_iters",
    "valid_average_hit_len": "hit_len / hit_iters",
    "hit_valid_rate": "hit_len / drafted tokens",
    "requests": "requests that began; a total divided by it is the average request's",
    "requests_ended": "requests that ended, whose iterations and tokens are all counted",
    "entries": "(context, next token) pairs in the shared cache",
    "memory_bytes": "memory of the shared cache and of all active requests",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What one engine's cache did since its start."""

    num_iters: int = 0
    hit_iters: int = 0
    hit_len: int = 0
    lookahead_len: int = 0
    requests: int = 0
    requests_ended: int = 0
    entries: int = 0
    memory_bytes: int = 0

    def value(self, name: str) -> float:
        """The figure of a name in MEANINGS."""
        rates = Metrics(self.num_iters, self.hit_iters, self.hit_len, self.lookahead_len)
        return float(getattr(rates if name in LINE else self, name))


def write(counts: Counts, directory: Path, engine: str) -> None:
    """Leave the counts of an engine, named by its number."""
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / f".{engine}.{os.getpid()}"
    unfinished.write_text(json.dumps(asdict(counts)))
    unfinished.replace(directory / f"{engine}.json")


def read(directory: Path) -> Iterator[tuple[str, Counts]]:
    """Every engine and its counts; a file that is no count is left out."""
    for path in sorted(directory.glob("*.json")):
        try:
            yield path.stem, Counts(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            continue
