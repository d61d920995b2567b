"""Reads the weights into the page cache before the engine asks for them, which needs seconds for its imports alone.

`launch.exec` starts it first of all: it takes no GPU memory, so it need not wait for the license. Threads read blocks
in the engine's order, a few at a time, so that a network volume is busy with several requests. It stops when memory is
short, when the engine is up, and when the process is told to stop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windlass_sizing.files import documents

from windlass.engine.startup import memory
from windlass.engine.startup.files import WeightFile

GIB = 1024**3
BLOCK_BYTES = 16 * 1024**2
THREADS = 4
RESERVE_BYTES = 2 * GIB
"""What is left for the engine's own processes."""
PROGRESS_EVERY_S = 5.0
STOP_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading is."""

    state: str  # off | reading | done | stopped
    files: int = 0
    bytes_total: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    why: str = ""
    """Why not everything was read."""

    def line(self) -> str:
        """One line for the log."""
        rate = self.bytes_read / GIB / self.seconds if self.seconds else 0.0
        text = (
            f"weights read ahead: {self.bytes_read / GIB:.2f} of {self.bytes_total / GIB:.2f} GiB"
            f" in {self.seconds:.1f} s, {rate:.2f} GiB/s"
        )
        return f"{text}; {self.why}" if self.why else text

    def to_dict(self) -> dict[str, Any]:
        """As the facts port shows it."""
        return {
            "state": self.state,
            "files": self.files,
            "bytesTotal": self.bytes_total,
            "bytesRead": self.bytes_read,
            "seconds": round(self.seconds, 1),
            "message": self.why,
        }


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of one file."""

    path: Path
    offset: int
    length: int


def blocks(files: Sequence[WeightFile], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The files in pieces, in order."""
    for file in files:
        for offset in range(0, file.size, block_bytes):
            yield Block(file.path, offset, min(block_bytes, file.size - offset))


class Preread:
    """One reading ahead; `start` it, `cancel` it when nobody needs it any more."""

    def __init__(
        self,
        files: Sequence[WeightFile],
        report: Callable[[Progress], None],
        *,
        free_bytes: Callable[[], int | None] = memory.free_bytes,
        reserve_bytes: int = RESERVE_BYTES,
        threads: int = THREADS,
    ) -> None:
        """Read these files; `report` is called from a thread, every few seconds and at the end."""
        self._report, self._free, self._reserve = report, free_bytes, reserve_bytes
        self._left = blocks(files)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._taken = 0
        self._began = time.monotonic()
        self._progress = Progress("reading", len(files), sum(file.size for file in files))
        # Daemons: a volume that hangs must not keep the process from ending.
        self._readers = [threading.Thread(target=self._read, name="preread", daemon=True) for _ in range(threads)]
        self._watcher = threading.Thread(target=self._watch, name="preread-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._began = time.monotonic()
        for thread in (*self._readers, self._watcher):
            thread.start()

    def cancel(self, why: str) -> None:
        """Stop after the blocks that are being read; without effect when all is read."""
        self._stop(why)

    def join(self, timeout_s: float | None = None) -> Progress:
        """Wait for the end."""
        self._watcher.join(timeout_s)
        return self._progress

    def _watch(self) -> None:
        while any(thread.is_alive() for thread in self._readers):
            until = time.monotonic() + PROGRESS_EVERY_S
            for thread in self._readers:
                thread.join(max(0.0, until - time.monotonic()))
            if any(thread.is_alive() for thread in self._readers):
                self._report(self._now("reading"))
        whole = self._progress.bytes_read == self._progress.bytes_total
        self._report(self._now("done" if whole else "stopped"))

    def _now(self, state: str) -> Progress:
        with self._lock:
            why = "" if state == "done" else self._progress.why
            seconds = time.monotonic() - self._began
            self._progress = replace(self._progress, state=state, seconds=seconds, why=why)
            return self._progress

    def _stop(self, why: str) -> None:
        with self._lock:
            if not self._stopped.is_set():
                self._progress = replace(self._progress, why=why)
                self._stopped.set()

    def _read(self) -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        try:
            while (block := self._next()) is not None:
                done = read_block(block, buffer)
                with self._lock:
                    self._progress = replace(self._progress, bytes_read=self._progress.bytes_read + done)
        except OSError as error:
            self._stop(f"{error.filename or 'a file'} cannot be read: {error.strerror}; the engine will say more")

    def _next(self) -> Block | None:
        with self._lock:
            room = memory.room_bytes(self._free(), self._reserve, self._taken)
            if self._stopped.is_set() or (block := next(self._left, None)) is None:
                return None
            if block.length <= room:
                self._taken += block.length
                return block
        self._stop("the rest does not fit into free memory; give the container more, or set DISABLE_MEM_CACHE=true")
        return None


def read_block(block: Block, buffer: memoryview) -> int:
    """Read one piece and forget it: its pages stay in the kernel. The number of bytes, fewer when the file ends."""
    # Opened for each block: 16 MiB take longer than an open, and no thread has to remember which file it is at. Telling
    # the kernel of the block beforehand (WILLNEED) made it slower in `bench/preread.py`: one large read says as much.
    with documents.opened(block.path) as file:
        descriptor, done = file.fileno(), 0
        while done < block.length:
            count = os.preadv(descriptor, [buffer[done : block.length]], block.offset + done)
            if count == 0:
                break
            done += count
        return done
