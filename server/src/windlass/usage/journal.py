"""Writes each answered request to disk before its client has the end of the answer, so that kill -9 loses none.

Each process writes to a folder of its own, whose lock ends with the process; the next process continues there.
One thread writes, in the order of the answers, and another one folds. The event loop never waits for the disk, and the
end of an answer waits for its own record alone.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from windlass.usage import hours
from windlass.usage.hours import Journal
from windlass.usage.read import Tokens

log = logging.getLogger(__name__)
VARIABLE = "WINDLASS_USAGE_DIR"
JOURNAL_BYTES = 256 * 1024
LOCK = "lock"
WAIT_S = 2.0
"""How long the end of an answer waits for a disk that takes nothing, as a share whose server is away."""
UNWRITTEN_MAX = 10_000
"""Records that wait for the disk; those beyond are counted as lost."""


def root(environment: Mapping[str, str]) -> Path | None:
    """The folder of the records: VARIABLE, else a folder in the pod's cache; None outside of pods."""
    if given := environment.get(VARIABLE):
        return Path(given)
    service, cache = environment.get("WINDLASS_SERVICE"), environment.get("XDG_CACHE_HOME")
    return Path(cache, "windlass", "usage", service) if service and cache else None


class Journals:
    """The records of this process. A failure to write ends no request; `unrecorded` counts it."""

    def __init__(self, place: Path | None, clock: Callable[[], float] = time.time) -> None:
        """Create no folder before the first record."""
        self._place, self._clock = place, clock
        self._writer: _Writer | None = None
        self._retry_at = 0.0
        self._failed = self._crowded = 0  # of the writing thread and of the event loop
        self._unwritten: set[Future[None]] = set()
        self._writing = ThreadPoolExecutor(1, "windlass-usage-write")

    @property
    def unrecorded(self) -> int:
        """Answered requests that the records lack."""
        return self._failed + self._crowded

    def add(self, key: str, model: str, tokens: Tokens, *, estimated: bool) -> Future[None] | None:
        """Record an answered request; done when it is on its way to the disk, or cannot be. None: nothing is to do."""
        if not self._place:
            return None
        if len(self._unwritten) >= UNWRITTEN_MAX:
            self._crowded += 1
            return None
        now = self._clock()
        line = hours.line(key, model, tokens, estimated=estimated)
        record = self._writing.submit(self._write, self._place, now, line)
        self._unwritten.add(record)
        record.add_done_callback(self._unwritten.discard)
        return record

    def _write(self, place: Path, now: float, line: bytes) -> None:
        """In the writing thread."""
        try:
            if self._writer is None:
                if now < self._retry_at:
                    self._failed += 1
                    return
                self._writer = _Writer(place)
            self._writer.write(hours.hour_of(now), line)
        except (OSError, ValueError, LookupError, TypeError) as error:
            # A broken disk must not stop the service; the counter and the log show the gap.
            self._failed += 1
            if now >= self._retry_at:
                log.error("windlass: usage cannot be recorded in %s: %s", place, error)
                self._retry_at = now + 60


async def recorded(record: Future[None] | None) -> None:
    """Wait until the record is written; a disk that takes nothing holds an answer up for WAIT_S."""
    if record is not None and not record.done():
        await asyncio.wait({asyncio.wrap_future(record)}, timeout=WAIT_S)


class _Writer:
    """A locked folder and its open journal."""

    def __init__(self, place: Path) -> None:
        self._folder, self._lock = _take(place)
        try:
            left = (journal.number for journal in hours.journals(self._folder))
            folded = (hours.sound_hour(self._folder, hour).folded for hour in hours.hours(self._folder))
            self._number = max([*folded, *left], default=0)
        except BaseException:
            os.close(self._lock)
            raise
        # One thread, so that journals are folded in their order; a record does not wait for a fold.
        self._folding = ThreadPoolExecutor(1, "windlass-usage")
        self._folding.submit(self._fold, self._number)
        self._journal: Journal | None = None
        self._file, self._bytes = -1, 0

    def write(self, hour: str, line: bytes) -> None:
        if self._journal is None or self._journal.hour != hour or self._bytes >= JOURNAL_BYTES:
            self._next_journal(hour)
        written = os.write(self._file, line)
        self._bytes += written
        if written < len(line):
            raise OSError("the disk is full")

    def _next_journal(self, hour: str) -> None:
        journal = Journal(self._number + 1, hour)
        file = os.open(self._folder / journal.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        before, self._journal, self._number = self._journal, journal, journal.number
        if before:
            os.close(self._file)
            self._folding.submit(self._fold, before.number)
        self._file, self._bytes = file, 0

    def _fold(self, last: int) -> None:
        try:
            for journal in hours.journals(self._folder):
                if journal.number <= last:  # in order: an hour takes no journal below its `folded`
                    hours.fold(self._folder, journal)
            hours.prune(self._folder)
        except (OSError, ValueError, LookupError, TypeError) as error:
            log.error("windlass: journals of usage in %s cannot be added to their hours: %s", self._folder, error)


def _take(place: Path) -> tuple[Path, int]:
    """A locked folder that no other process writes to."""
    place.mkdir(parents=True, exist_ok=True)
    for folder in hours.writers(place):
        if (lock := _locked(folder)) is not None:
            return folder, lock
    folder = place / uuid4().hex
    folder.mkdir()
    if (lock := _locked(folder)) is None:
        shutil.rmtree(folder)  # or each retry would leave one more
        raise OSError("the volume takes no locks")
    return folder, lock


def _locked(folder: Path) -> int | None:
    """The lock of a folder; None where another process holds it, or the volume gives none."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
