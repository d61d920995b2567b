"""Writes each answered request to disk before its client has the end of the answer, so that kill -9 loses none.

Each process writes to a folder of its own, whose lock ends with the process; the next process continues there.
One thread writes, in the order of the answers, and another one folds. Records that come while it writes are its next
batch: one write, and one wake-up of the event loop. The loop never waits for the disk; the end of an answer waits for
the batch with its own record.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate, groupby
from pathlib import Path
from uuid import uuid4

from windlass.front.usage import hours
from windlass.front.usage.hours import Journal
from windlass.front.usage.read import Tokens

log = logging.getLogger("windlass.usage.journal")
VARIABLE = "WINDLASS_USAGE_DIR"
JOURNAL_BYTES = 256 * 1024
LOCK = "lock"
WAIT_S = 2.0
"""How long the end of an answer waits for a disk that takes nothing, as a share whose server is away."""
PAUSE_S = 60.0
"""Seconds until a folder is tried again that could not be opened; and between two lines in the log."""
FULL = (errno.ENOSPC, errno.EDQUOT)
SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN)
PASSING = frozenset({*FULL, *SHORT})
"""Errors after which the same journal goes on: there may be room again, and the folder is fine."""
UNWRITTEN_MAX = 10_000
"""Records that wait for the disk; those beyond are counted as lost."""


def root(environment: Mapping[str, str]) -> Path | None:
    """The folder of the records: VARIABLE, else a folder in the pod's cache; None outside of pods."""
    if given := environment.get(VARIABLE):
        return Path(given)
    service, cache = environment.get("WINDLASS_SERVICE"), environment.get("XDG_CACHE_HOME")
    return Path(cache, "windlass", "usage", service) if service and cache else None


class Batch(Future[None]):
    """Records that are written together; done when they are on their way to the disk, or cannot be."""

    def __init__(self) -> None:
        """Nothing is in it."""
        super().__init__()
        self.records: list[tuple[str, bytes]] = []
        """Hour and line."""
        self._waiter: asyncio.Future[None] | None = None

    def waiter(self) -> asyncio.Future[None]:
        """The same for the event loop: one for all who wait, since each would wake it by itself."""
        if self._waiter is None:
            self._waiter = asyncio.wrap_future(self)
        return self._waiter


class Journals:
    """The records of this process. A failure to write ends no request; `unrecorded` counts it."""

    def __init__(
        self,
        place: Path | None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create no folder before the first record; `steady` measures pauses, since `clock` may be put back."""
        self._place, self._clock, self._steady = place, clock, steady
        self._writer: _Writer | None = None
        self._retry_at = self._log_at = 0.0
        self._failed = self._crowded = 0  # of the writing thread and of the event loop
        self._unwritten = 0
        self._batch: Batch | None = None
        """What the thread writes next."""
        self._lock = threading.Lock()
        self._writing = ThreadPoolExecutor(1, "windlass-usage-write")

    @property
    def unrecorded(self) -> int:
        """Answered requests that the records lack."""
        return self._failed + self._crowded

    def add(self, key: str, model: str, tokens: Tokens, *, estimated: bool) -> Batch | None:
        """Record an answered request; done when it is on its way to the disk, or cannot be. None: nothing is to do."""
        if not self._place:
            return None
        if self._unwritten >= UNWRITTEN_MAX:
            self._crowded += 1
            return None
        record = (hours.hour_of(self._clock()), hours.line(key, model, tokens, estimated=estimated))
        with self._lock:
            batch = self._batch
            if batch is None:
                batch = Batch()
                try:
                    self._writing.submit(self._write_batch, self._place)  # which takes the lock first
                except RuntimeError as error:  # no thread can be started
                    self._crowded += 1
                    self._report(self._place, error)
                    return None
                self._batch = batch
            self._unwritten += 1
            batch.records.append(record)
        return batch

    def _write_batch(self, place: Path) -> None:
        """In the writing thread."""
        with self._lock:
            batch, self._batch = self._batch, None
        if batch is None:
            return
        try:
            for hour, records in groupby(batch.records, lambda record: record[0]):
                self._write(place, hour, [line for _, line in records])
        finally:
            with self._lock:
                self._unwritten -= len(batch.records)
            batch.set_result(None)

    def _write(self, place: Path, hour: str, lines: list[bytes]) -> None:
        try:
            if self._writer is None:
                if self._steady() < self._retry_at:
                    self._failed += len(lines)
                    return
                self._writer = self._opened(place)
            if lost := self._writer.write(hour, lines):
                self._failed += lost
                self._report(place, OSError("the disk is full"))
        except Exception as error:  # whatever it is: the counter and the log show the gap, and the service goes on
            self._failed += len(lines)
            self._report(place, error)
            if self._writer and getattr(error, "errno", None) not in PASSING:
                self._leave(self._writer)

    def _opened(self, place: Path) -> _Writer:
        self._retry_at = self._steady() + PAUSE_S  # if it fails
        return _Writer(place)

    def _leave(self, writer: _Writer) -> None:
        """The folder may be gone: the next record opens one anew; at once where this one has taken records."""
        self._writer = None
        if writer.has_written:
            self._retry_at = 0.0
        writer.close()

    def _report(self, place: Path, error: Exception) -> None:
        now = self._steady()
        if now >= self._log_at:
            log.error("windlass: usage cannot be recorded in %s: %s", place, error, exc_info=error)
            self._log_at = now + PAUSE_S


async def recorded(record: Batch | None) -> None:
    """Wait until the record is written; a disk that takes nothing holds an answer up for WAIT_S."""
    if record is not None and not record.done():
        await asyncio.wait({record.waiter()}, timeout=WAIT_S)


class _Writer:
    """A locked folder and its open journal."""

    def __init__(self, place: Path) -> None:
        self._folder, self._lock = _take(place)
        try:
            left = (journal.number for journal in hours.journals(self._folder))
            folded = (hours.sound_hour(self._folder, hour).folded for hour in hours.hours(self._folder))
            self._number = max([*folded, *left], default=0)
            # One thread, so that journals are folded in their order; a record does not wait for a fold.
            self._folding = ThreadPoolExecutor(1, "windlass-usage")
            self._folding.submit(self._fold, self._number)
        except BaseException:
            os.close(self._lock)
            raise
        self._journal: Journal | None = None
        self._file, self._bytes = -1, 0
        self.has_written = False

    def close(self) -> None:
        """Give the folder to the next writer, after the folds that wait."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        try:
            self._folding.submit(os.close, self._lock)
        except RuntimeError:  # no thread can be started, so none folds
            os.close(self._lock)
        self._folding.shutdown(wait=False)

    def write(self, hour: str, lines: list[bytes]) -> int:
        """How many of the lines are not whole in the journal."""
        if self._journal is None or self._journal.hour != hour or self._bytes >= JOURNAL_BYTES:
            self._next_journal(hour)
        written = os.write(self._file, b"".join(lines))
        self._bytes += written
        self.has_written = True
        return sum(end > written for end in accumulate(map(len, lines)))

    def _next_journal(self, hour: str) -> None:
        journal = Journal(self._number + 1, hour)
        file = os.open(self._folder / journal.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        before, self._journal, self._number = self._journal, journal, journal.number
        old, self._file, self._bytes = self._file, file, 0
        if before:
            os.close(old)
            self._folding.submit(self._fold, before.number)

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
