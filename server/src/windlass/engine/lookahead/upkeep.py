"""A thread that writes the cache's counts, its log lines and its file once a second, beside the engine's steps.

No step waits for it.
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from windlass_lookahead import LookaheadCache

from windlass.engine.lookahead import counts
from windlass.engine.lookahead.counts import Counts
from windlass.engine.lookahead.store import Store

logger = logging.getLogger("windlass.lookahead")
EVERY_S = 1.0
IDLE_ROUNDS = 5
"""Rounds without an iteration after which the engine counts as idle: five seconds."""
STOP_S_MAX = 30.0


class Upkeep:
    """Runs from `start` to `stop`."""

    def __init__(self, cache: LookaheadCache, store: Store | None, directory: Path | None, engine: str) -> None:
        self._cache, self._store, self._directory, self._engine = cache, store, directory, engine
        self._stop = threading.Event()
        self._written: Counts | None = None
        self._iterations, self._quiet = 0, 0
        self._thread = threading.Thread(target=self._run, name="lookahead-upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, with the last counts and the file written; the second time it does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(STOP_S_MAX)
        self.once()
        if self._store:
            self._store.save()

    def once(self) -> None:
        """One round."""
        self._cache.log_if_due()
        found = _counts(self._cache)
        self._quiet = self._quiet + 1 if found.num_iters == self._iterations else 0
        self._iterations = found.num_iters
        if self._directory and found != self._written:
            try:
                counts.write(found, self._directory, self._engine)
            except OSError as error:
                logger.warning("the counts of the lookahead cache cannot be written: %s", error)
                self._directory = None
            self._written = found
        if self._store and not self._stop.is_set():
            self._store.save_if_due(idle=self._quiet >= IDLE_ROUNDS)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.once()


def _counts(cache: LookaheadCache) -> Counts:
    ended = cache.requests_ended  # read first, so that the totals are complete for these requests
    totals = cache.metrics()
    return Counts(
        num_iters=int(totals.num_iters),
        hit_iters=int(totals.hit_iters),
        hit_len=int(totals.hit_len),
        lookahead_len=int(totals.lookahead_len),
        requests=cache.requests_seen,
        requests_ended=ended,
        entries=cache.entries,
        memory_bytes=cache.memory_bytes,
    )


def speak() -> None:
    """Let the cache's log reach the engine's output; the engine sets up its own logger only."""
    root = logging.getLogger("windlass.lookahead")
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("windlass: lookahead: %(message)s"))
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        root.propagate = False
