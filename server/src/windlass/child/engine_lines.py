"""The engine's text output as JSON lines: level, logger and process from its prefixes, a traceback as one record.

vLLM's own logging configuration covers its loggers only. Warnings of C++ libraries, print statements and the last words
of a dying process come beside them, so the supervisor writes the objects.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from windlass_base import json_lines
from windlass_base.json_lines import LogSettings

from windlass.child.output import Sink

LINE_BYTES_MAX = 64 * 1024
TRACEBACK_LINES_MAX = 400
LEVEL = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
PROCESS = re.compile(r"\((?P<process>[^()]*pid=\d+)\) ?")
SHAPES = (
    # vLLM
    re.compile(rf"(?P<level>{LEVEL}) \d\d-\d\d [\d:.]+ \[(?P<source>[^\]]*)\] ?(?P<message>.*)"),
    # logging of the DeepSpeed server
    re.compile(rf"\d{{4}}-\d\d-\d\d [\d:]+,\d{{3}} (?P<level>{LEVEL}) (?P<logger>\S+) ?(?P<message>.*)"),
    # DeepSpeed
    re.compile(rf"\[[\d: ,.-]+\] \[(?P<level>{LEVEL})\] \[(?P<source>[^\]]*)\] ?(?P<message>.*)"),
    # uvicorn
    re.compile(rf"(?P<level>{LEVEL}): +(?P<message>.*)"),
    re.compile(r"(?P<logger>windlass(?:-deepspeed)?): (?P<message>.*)"),
)
REQUEST = re.compile(r"\brequest (?P<id>[a-z]+-[\w-]{8,})")
TRACEBACK = "Traceback (most recent call last):"
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the engine, taken apart."""

    message: str
    level: int = logging.INFO
    logger: str = ENGINE
    process: str = ""
    source: str = ""

    def fields(self) -> dict[str, object]:
        """What is known beside level, logger and message."""
        request = REQUEST.search(self.message)
        known = {"process": self.process, "source": self.source, "request_id": request["id"] if request else ""}
        return {name: value for name, value in known.items() if value}


def parse(text: str) -> Line:
    """Take one line apart; a line of no known shape is a message at level info."""
    found = PROCESS.match(text)
    process, rest = (found["process"], text[found.end() :]) if found else ("", text)
    for shape in SHAPES:
        if match := shape.fullmatch(rest):
            parts = match.groupdict()
            level = logging.getLevelNamesMapping()[parts.get("level") or "INFO"]
            return Line(
                parts["message"], level, parts.get("logger") or ENGINE, process, (parts.get("source") or "").strip()
            )
    return Line(rest, process=process)


class EngineLines:
    """A sink that writes each line it gets to another one as a JSON object."""

    def __init__(self, out: Sink, settings: LogSettings, clock: Callable[[], float] = time.time) -> None:
        """Write to this sink."""
        self._out, self._settings, self._clock = out, settings, clock
        self._rest = b""
        self._tracebacks: dict[str, list[Line]] = {}  # by process: their lines come between one another

    def write(self, chunk: bytes, /) -> int:
        """Take a piece; whole lines go on."""
        *whole, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            whole, rest = [*whole, rest], b""
        self._rest = rest
        for raw in whole:
            self._take(parse(raw[:LINE_BYTES_MAX].decode(errors="replace")))
        return len(chunk)

    def flush(self) -> None:
        """Pass on what is whole; a line without its end waits."""
        self._out.flush()

    def close(self) -> None:
        """Write what is left of a last line and of tracebacks without an end."""
        if self._rest.strip():
            self._take(parse(self._rest.decode(errors="replace")))
            self._rest = b""
        for process in tuple(self._tracebacks):
            self._end_traceback(process)
        self.flush()

    def _take(self, line: Line) -> None:
        pending = self._tracebacks.get(line.process)
        if line.message.startswith(TRACEBACK) and pending is None:
            self._tracebacks[line.process] = [line]
        elif pending is None:
            if line.message.strip():
                self._emit(line, line.message)
        else:
            pending.append(line)
            if not _goes_on(line.message) or len(pending) >= TRACEBACK_LINES_MAX:
                self._end_traceback(line.process)

    def _end_traceback(self, process: str) -> None:
        lines = self._tracebacks.pop(process)
        text = "\n".join(line.message for line in lines)
        self._emit(lines[0], lines[-1].message.strip() or TRACEBACK, max(lines[0].level, logging.ERROR), traceback=text)

    def _emit(self, line: Line, message: str, level: int = logging.NOTSET, **more: object) -> None:
        record = json_lines.line(
            self._settings, self._clock(), level or line.level, line.logger, message, **line.fields(), **more
        )
        self._out.write(record.encode() + b"\n")


def _goes_on(text: str) -> bool:
    """Whether a traceback has not ended with this line: it ends with the exception, which is not indented."""
    return not text.strip() or text.startswith((" ", TRACEBACK, *CHAINED))
