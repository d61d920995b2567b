"""Keeps merged checkpoints: made once, published by a rename, found again at the next start. Shell around `merge`.

A folder that is not whole is never seen under its final name; one that was damaged later is noticed and made again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from windlass.engine.adapters.model import Merge
from windlass.errors import ModelError

MANIFEST = "windlass-merge.json"
PART = ".part"
SPARE_BYTES = 64 * 1024**2
REPORT_EVERY_S = 5.0
GIB = 1024**3
TOLD_TO_STOP = 128 + signal.SIGTERM
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What a network volume without locks says."""
Say = Callable[[str], None]


def root(environment: Mapping[str, str]) -> str:
    """The cache directory: WINDLASS_CACHE, else `windlass` in the user's own cache."""
    if said := environment.get("WINDLASS_CACHE"):
        return said
    home = environment.get("HOME") or environment.get("TMPDIR") or "/tmp"  # noqa: S108 - better than nothing
    return f"{environment.get('XDG_CACHE_HOME') or f'{home}/.cache'}/windlass"


def ensure(plan: Merge | None, say: Say) -> None:
    """Have the merged checkpoint at its place; ModelError with what is in the way."""
    if plan is None:
        return
    target = Path(plan.target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target, say):
            if is_whole(target):
                say(f"{_what(plan)}: merged already, in {target}")
            else:
                _make(plan, target, say)
    except OSError as error:
        raise ModelError(
            f"{target.parent} cannot hold the merged weights: {error.strerror}; set WINDLASS_CACHE to a directory "
            "that can be written and has room, or leave --merge-lora out"
        ) from error


def is_whole(target: Path) -> bool:
    """Whether every file is as it was left, and every link leads somewhere."""
    try:
        files = json.loads((target / MANIFEST).read_bytes())["files"]
        found = {name: _mark(target / name) for name in files}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(files) and found == files and all(entry.exists() for entry in target.iterdir())


def _mark(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns]


@contextmanager
def _alone(target: Path, say: Say) -> Iterator[None]:
    """One process at a time for each target; the lock goes with the process, however it ends."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is merging into {target}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield


def _make(plan: Merge, target: Path, say: Say) -> None:
    from windlass.engine.adapters import merge

    checkpoint = merge.open_checkpoint(plan)
    _clear(target)
    _check_room(target.parent, checkpoint.size)
    part = target.with_name(f"{target.name}.{os.getpid()}{PART}")
    part.mkdir()
    try:
        with _stoppable():
            merge.write(checkpoint, part, _reporter(_what(plan), say))
            _seal(part)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    say(f"{_what(plan)}: {len(checkpoint.changes)} tensors merged, {checkpoint.size / GIB:.2f} GiB in {target}")


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends the work at once and cleanly; the first process of a container would not hear it otherwise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TOLD_TO_STOP))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _clear(target: Path) -> None:
    """Take away what an earlier process left half-done, and a result that is damaged."""
    for left in (target, *target.parent.glob(f"{target.name}.*{PART}")):
        if left.exists():
            shutil.rmtree(left)


def _check_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + SPARE_BYTES:
        raise ModelError(
            f"merging writes {size / GIB:.2f} GiB into {folder}, where {free / GIB:.2f} GiB are free; "
            "set WINDLASS_CACHE to a directory with room, or leave --merge-lora out and serve the adapter by name"
        )


def _seal(part: Path) -> None:
    """Write down what must be there, after all of it is on the disk."""
    written = [entry for entry in part.iterdir() if not entry.is_symlink()]
    for file in written:
        with file.open("rb") as content:
            os.fsync(content.fileno())
    body = {"files": {file.name: _mark(file) for file in sorted(written)}}
    (part / MANIFEST).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def _reporter(what: str, say: Say) -> Callable[[int, int], None]:
    last = time.monotonic()

    def report(written: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= REPORT_EVERY_S:
            last = time.monotonic()
            say(f"{what}: {written / GIB:.2f} of {total / GIB:.2f} GiB written")

    return report


def _what(plan: Merge) -> str:
    return f'adapter "{plan.adapter.name}" into {plan.base}'
