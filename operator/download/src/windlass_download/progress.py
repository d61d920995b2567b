"""How far a download is: counted by many threads, told as a line, as facts, and to whoever waits for it."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from windlass_download.wanted import printable

WINDOW_S = 30.0
KIB, GIB = 1024.0, 1024.0**3
COUNT_MAX = 2**62  # what a status field of Kubernetes holds
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Progress:
    """Counters of one download; sizes in bytes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._done = self._total = self._fetched = 0
        self._files_done = self._files_total = 0
        self._file = self._trouble = ""
        self._others: Mapping[str, Any] | None = None
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])

    def begin(self, total: int, files: int) -> None:
        """A listing is known; counting begins at nothing."""
        with self._lock:
            self._done = self._files_done = 0
            self._total, self._files_total, self._others, self._trouble = total, files, None, ""

    def note(self, trouble: str) -> None:
        """Why the hub gives nothing; the next listing or byte clears it."""
        with self._lock:
            self._trouble = printable(trouble)

    def waiting(self, others: Mapping[str, Any]) -> None:
        """Another process downloads; what it told last."""
        with self._lock:
            self._others = others

    def have(self, size: int, files: int = 0) -> None:
        """Bytes that lie on the volume already; negative when they turned out to be wrong."""
        with self._lock:
            self._done += size
            self._files_done += files

    def fetched(self, size: int, file: str) -> None:
        """Bytes that came from the hub."""
        with self._lock:
            self._done += size
            self._fetched += size
            self._file, self._trouble = file, ""

    @property
    def bytes_fetched(self) -> int:
        """All that came from the hub, thrown away or not."""
        return self._fetched

    def snapshot(self) -> dict[str, Any]:
        """The facts of this moment; remainingSeconds is left out while unknown, trouble while there is none."""
        with self._lock:
            if self._others is not None:
                return dict(self._others)
            speed = self._speed()
            facts: dict[str, Any] = {
                "bytesDone": min(max(self._done, 0), self._total),
                "bytesTotal": self._total,
                "bytesPerSecond": speed,
                "filesDone": self._files_done,
                "filesTotal": self._files_total,
                "file": self._file,
            }
            if speed and self._total:
                facts["remainingSeconds"] = math.ceil(max(0, self._total - self._done) / speed)
            return {**facts, "trouble": self._trouble} if self._trouble else facts

    def facts(self) -> dict[str, Any]:
        """The answer of the facts port."""
        return {"version": 1, "phase": "download", "download": self.snapshot()}

    def line(self) -> str:
        """The moment on one ASCII line."""
        facts = self.snapshot()
        before = "another download of this target is under way: " if self._others is not None else ""
        why = f" ({printable(text)})" if isinstance(text := facts.get("trouble"), str) else ""
        if not isinstance(facts.get("bytesTotal"), int) or not facts["bytesTotal"]:
            return f"download: {before}{'it begins' if before else 'the hub is asked for its files'}{why}"
        return f"download: {before}{sentence(facts)}{why}"

    def _speed(self) -> int:
        """Bytes per second over the last half minute; the lock is held."""
        now = self._clock()
        self._seen.append((now, self._fetched))
        while len(self._seen) > 2 and now - self._seen[1][0] > WINDOW_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return int((self._fetched - before) / (now - since)) if now > since else 0


def sentence(facts: Mapping[str, Any]) -> str:
    """`1.2 GiB of 14.2 GiB (8 %), 85.3 MiB/s, 2 min 35 s left, 3 of 11 files`, as far as it is known."""
    done, total = _count(facts, "bytesDone"), _count(facts, "bytesTotal")
    words = [f"{size(done)} of {size(total)} ({100 * done // total if total else 0} %)"]
    words.append(f"{size(_count(facts, 'bytesPerSecond'))}/s")
    if isinstance(facts.get("remainingSeconds"), int):
        words.append(f"{duration(_count(facts, 'remainingSeconds'))} left")
    words.append(f"{_count(facts, 'filesDone')} of {_count(facts, 'filesTotal')} files")
    return ", ".join(words)


def size(count: float) -> str:
    """Bytes in the unit that reads best."""
    unit = min(len(UNITS) - 1, int(math.log(count, KIB))) if count >= 1 else 0
    return f"{count / KIB**unit:.1f} {UNITS[unit]}" if unit else f"{int(count)} B"


def duration(seconds: int) -> str:
    """Seconds as the two largest units that they have."""
    hours, rest = divmod(seconds, 3600)
    if hours:
        return f"{hours} h {rest // 60} min"
    return f"{rest // 60} min {rest % 60} s" if rest >= 60 else f"{rest} s"


def _count(facts: Mapping[str, Any], key: str) -> int:
    value = facts.get(key)
    return min(value, COUNT_MAX) if isinstance(value, int) and value >= 0 else 0


def ascii_name(path: str) -> str:
    """A file's name in facts and lines."""
    return printable(path)
