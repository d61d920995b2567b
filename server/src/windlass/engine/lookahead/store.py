"""The shared cache across restarts: which file, read at start, written when the engine is idle and now and then.

An engine that must stop often has no time left to write, so nothing relies on that. A file belongs to one
tokenizer and one size of cache, and says so in its name; what is in it is checked by the core.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from windlass_lookahead import CacheFileError, LookaheadCache

logger = logging.getLogger("windlass.lookahead")

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tekken.json", "qwen.tiktoken", "vocab.json")
IDLE_SAVE_S = 60.0
BUSY_SAVE_S = 900.0
"""Seconds from one writing to the next: a hundred MiB are copied, so an engine that is never idle does it seldom."""


def tokenizer_of(model: Path) -> str:
    """The hash of the model's tokenizer, empty when its file has no name that we know."""
    for name in TOKENIZER_FILES:
        if (path := model / name).is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


class Store:
    """One cache and its file."""

    def __init__(
        self, cache: LookaheadCache, directory: Path, tokenizer: str, name: str, clock: Callable[[], float]
    ) -> None:
        self._cache, self._tokenizer, self._clock = cache, tokenizer, clock
        options = cache.options
        self.path = directory / f"{tokenizer[:16]}-{options.cache_size}-{options.turbo_match_length}-{name}.cache"
        self._began_at, self._saved_at, self._saved_seen = clock(), float("-inf"), 0

    def load(self) -> None:
        """Read the file, when there is one that can be used; serving goes on in any case."""
        if not self.path.exists():
            return
        try:
            self._cache.load(self.path, self._tokenizer)
        except CacheFileError as error:
            logger.warning("the lookahead cache starts empty: %s", error)
        else:
            logger.info("the lookahead cache has %d entries from %s", self._cache.entries, self.path)

    def save_if_due(self, *, idle: bool) -> None:
        """Write the file when there is something new, and nobody would wait for it, or the last time is long ago."""
        now_s = self._clock()
        every_s, since = (IDLE_SAVE_S, self._saved_at) if idle else (BUSY_SAVE_S, max(self._saved_at, self._began_at))
        if now_s - since >= every_s:
            self.save()

    def save(self) -> None:
        """Write the file, unless nothing came since."""
        seen = self._cache.requests_seen
        if seen == self._saved_seen:
            return
        self._saved_at = self._clock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._cache.save(self.path, self._tokenizer)
        except (OSError, CacheFileError) as error:
            logger.warning("the lookahead cache was not saved: %s", error)
        else:
            self._saved_seen = seen


def now() -> float:
    """Seconds of a clock that never goes back."""
    return time.monotonic()
