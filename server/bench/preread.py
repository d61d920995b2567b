"""Measures reading ahead: a cold file by one reader, and by `windlass.engine.startup.preread` with 1 to 8 threads.

    python server/bench/preread.py [--gib 1] [--rounds 5] [--directory /var/tmp]

The file's pages are dropped before each round, and the rounds of the readers take turns, so that a noisy disk is noisy
for all of them. What the disk itself or its host keeps cannot be dropped from here: compare ratios, not figures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from windlass.engine.startup.files import WeightFile
from windlass.engine.startup.preread import GIB, Preread

PLAIN_BYTES = 1024**2
MIB = 1024**2


def make(path: Path, size: int) -> None:
    """Write a file that no file system can shorten."""
    with path.open("wb") as file:
        for _ in range(0, size, 16 * MIB):
            file.write(os.urandom(16 * MIB))
        file.flush()
        os.fsync(file.fileno())


def drop(path: Path) -> None:
    """Forget the file's pages."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def plain(path: Path) -> None:
    """One thread, one block after the other, as a loader without any help reads."""
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(PLAIN_BYTES)
        while file.readinto(buffer):
            pass


def ahead(path: Path, threads: int) -> None:
    """Our reader."""
    reader = Preread([WeightFile(path, path.stat().st_size)], lambda _: None, threads=threads)
    reader.start()
    progress = reader.join()
    if progress.state != "done":
        raise SystemExit(f"the file was not read: {progress.line()}")


def seconds(work: Callable[[], None], path: Path) -> float:
    """How long the work takes on a cold file."""
    drop(path)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Print medians and ratios."""
    words = argparse.ArgumentParser(description="cold reading, plain and ahead")
    words.add_argument("--gib", type=float, default=1.0)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--directory", type=Path, default=Path("/var/tmp"))  # noqa: S108  must be a disk, not memory
    asked = words.parse_args()
    size = int(asked.gib * GIB) // (16 * MIB) * 16 * MIB
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        path = Path(folder) / "model.safetensors"
        make(path, size)
        readers: dict[str, Callable[[], None]] = {"plain, 1 thread": lambda: plain(path)}
        readers |= {f"ahead, {n} threads": (lambda n=n: ahead(path, n)) for n in (1, 2, 4, 8)}
        took: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(asked.rounds):
            for name, work in readers.items():
                took[name].append(seconds(work, path))
    base = statistics.median(took["plain, 1 thread"])
    for name, rounds in took.items():
        median = statistics.median(rounds)
        print(f"{name:18} {median:6.2f} s  {size / GIB / median:6.2f} GiB/s  {base / median:5.2f} × plain")


if __name__ == "__main__":
    main()
