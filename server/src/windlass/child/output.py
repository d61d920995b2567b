"""The engine's output: passed on as it comes, its last lines kept, and the line found that says what went wrong."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Protocol

LINES_KEPT = 400
LINE_LENGTH_MAX = 600
ERROR = re.compile(r"(?:^|\s)((?:[A-Za-z_][\w.]*)?(?:Error|Exception)): (\S.*)$")
REFUSED_FLAGS = re.compile(r"^\S+\.py: error: (.+)$")
VALIDATION = "validation error"
"""A sentence of the data model's library; what is wrong stands in a line of its own after it."""
WRONG_VALUE = re.compile(r"^\s+(?:Value error, |Assertion failed, )?(\S.*?)(?: \[type=.*)?$")
CONSEQUENCES = (
    "Engine core initialization failed", "EngineCore encountered an issue", "Executor failed",
    "cancelled", "WorkerProc",
)  # fmt: skip
"""What the engine's outer processes say when an inner one has failed: true, but never the cause."""
PEER_GONE = re.compile(r"Connection (?:closed|reset) by (?:peer|remote)|remote process exited|ncclRemoteError", re.I)
"""The cause is another machine: its part of a collective operation is gone."""
ACCESS = re.compile(rb'INFO: +\S+ - "[A-Z]+ /')
"""One line a request: under load they would push out what went wrong."""
MERE_NOTE = re.compile(
    r"^(?:\([^)]*pid=\d+\) )?(?:\[rank\d+\]:)?(?:(?:WARNING|INFO|DEBUG)[ :]|\[?[WI]\d{4} \d\d:\d\d:\d\d)"
)
"""A line that its writer calls no error: of vLLM's and Python's loggers, or of torch's, as `[W1129 12:00:00`."""
LOG_PREFIX = re.compile(r"^(?:\([^)]*pid=\d+\) )?(?:(?:ERROR|WARNING|INFO) [\d-]+ [\d:.]+ \[[^\]]*\] ?)?")


class Sink(Protocol):
    """Where bytes go: a binary stream, or one that makes JSON lines of them."""

    def write(self, chunk: bytes, /) -> int:
        """Take a piece."""
        ...

    def flush(self) -> None:
        """Pass on what was taken."""
        ...


class OutputTail:
    """Copies bytes to a stream and remembers the last lines."""

    def __init__(self, stream: Sink, on_line: Callable[[str], None] = lambda _: None) -> None:
        """Copy to this stream; `on_line` hears every whole line."""
        self._stream, self._on_line = stream, on_line
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    def feed(self, chunk: bytes) -> None:
        """Pass a piece on."""
        self._stream.write(chunk)
        self._stream.flush()
        *whole, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-LINE_LENGTH_MAX:]
        for line in whole:
            if line.strip() and not ACCESS.match(line):
                self._lines.append(line.decode(errors="replace")[:LINE_LENGTH_MAX])
                self._on_line(self._lines[-1])

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, oldest first."""
        rest = self._rest.decode(errors="replace")
        return (*self._lines, rest) if rest.strip() else tuple(self._lines)


def refused_flags(lines: tuple[str, ...]) -> str | None:
    """What the engine's own parser of flags refused."""
    found = (REFUSED_FLAGS.match(line) for line in reversed(lines))
    return next((match[1] for match in found if match), None)


def cause(lines: tuple[str, ...]) -> str | None:
    """The first error that is no mere consequence of another, as `ValueError: …`.

    A warning may name the error that the engine got over, as when oneDNN refuses a matrix product on some processors.
    """
    texts = [without_prefix(line) for line in lines if not MERE_NOTE.match(line)]
    for number, text in enumerate(texts):
        found = ERROR.search(text)
        if found is None or found[2].strip('"').startswith(CONSEQUENCES):
            continue
        kind = found[1].rpartition(".")[2]
        if VALIDATION in found[2]:
            return f"{kind}: {_wrong_value(texts[number + 1 :]) or found[2]}"
        return f"{kind}: {found[2]}"
    return None


def lost_its_peer(lines: tuple[str, ...]) -> bool:
    """Whether what went wrong is the end of another member of the group."""
    return bool(PEER_GONE.search(cause(lines) or ""))


def _wrong_value(texts: list[str]) -> str | None:
    found = (WRONG_VALUE.match(text) for text in texts[:3])
    return next((match[1] for match in found if match), None)


def excerpt(lines: tuple[str, ...], bytes_max: int) -> str:
    """The last lines without the engine's log prefixes, as many as fit."""
    kept: list[str] = []
    left = bytes_max
    for line in reversed(lines):
        text = without_prefix(line)
        left -= len(text.encode()) + 1
        if left < 0:
            break
        kept.append(text)
    return "\n".join(reversed(kept))


def without_prefix(line: str) -> str:
    """A line of the engine's log without process, level, time and file."""
    return LOG_PREFIX.sub("", line, count=1)
