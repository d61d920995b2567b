"""Log lines as JSON objects: time, level, logger, message, then fields such as namespace and name.

docs/reference/logs.md describes the shape. Imports the standard library only.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType

FORMAT_VARIABLE, LEVEL_VARIABLE = "WINDLASS_LOG_FORMAT", "WINDLASS_LOG_LEVEL"
TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
RESERVED = ("time", "level", "logger", "message", "traceback")
SECRET_VARIABLE = re.compile(r"(?:TOKEN|KEYS?|SECRET|PASSWORD)$")
SECRET_CHARACTERS = 6
"""A shorter value would blank ordinary words."""
SECRET_TEXT = (
    re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"(?<=Bearer )[\w.~+/=-]+"),
    re.compile(r"windlass license, format \d.*?(?:Signature: [A-Za-z0-9+/]+=*|\Z)", re.DOTALL),
    re.compile(r"Signature: [A-Za-z0-9+/]{86}=="),
)
HIDDEN = "***"
IDENTITY = (("namespace", "WINDLASS_POD_NAMESPACE"), ("name", "WINDLASS_SERVICE"), ("pod", "WINDLASS_POD_NAME"))
about: ContextVar[tuple[tuple[str, object], ...]] = ContextVar("about", default=())


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a program logs; `fields` stand in every line, `secrets` in none."""

    format: str = TEXT
    level: int = logging.INFO
    fields: Mapping[str, object] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON object."""
        return self.format == JSON


def read(environment: Mapping[str, str]) -> LogSettings:
    """The settings in the environment; ValueError with one sentence for a wrong one."""
    chosen = _one_of(FORMAT_VARIABLE, environment, FORMATS, TEXT)
    level = LEVELS[_one_of(LEVEL_VARIABLE, environment, tuple(LEVELS), "info")]
    fields = {name: environment[variable] for name, variable in IDENTITY if environment.get(variable)}
    return LogSettings(chosen, level, fields, secrets_of(environment))


def _one_of(name: str, environment: Mapping[str, str], allowed: tuple[str, ...], default: str) -> str:
    value = environment.get(name, "").strip().lower() or default
    if value not in allowed:
        raise ValueError(f'variable {name} is "{environment[name]}": use one of {", ".join(allowed)}')
    return value


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that hold tokens, keys or passwords, each part of a list by itself, longest first."""
    lists = (value for name, value in environment.items() if SECRET_VARIABLE.search(name))
    parts = {part.strip() for value in lists for part in (value, *value.split(","))}
    return tuple(sorted((part for part in parts if len(part) >= SECRET_CHARACTERS), key=len, reverse=True))


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """The text with known secrets, private keys, bearer tokens and licenses blanked."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    for pattern in SECRET_TEXT:
        text = pattern.sub(HIDDEN, text)
    return text


def line(settings: LogSettings, when: float, level: int, logger: str, message: str, **fields: object) -> str:
    """One record as one line of ASCII, which no terminal and no collector reads as several."""
    first = {
        "time": datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": logging.getLevelName(level).lower(),
        "logger": logger,
        "message": message,
    }
    others = {name: value for name, value in {**settings.fields, **fields}.items() if name not in first}
    return json.dumps(_clean({**first, **others}, settings.secrets), default=str)


def complaint(environment: Mapping[str, str], logger: str, sentence: str) -> str:
    """The line of a start that failed before logging began; empty where the log is text."""
    try:
        settings = read(environment)
    except ValueError:
        return ""
    return line(settings, time.time(), logging.ERROR, logger, sentence) if settings.is_json else ""


def _clean(value: object, secrets: tuple[str, ...]) -> object:
    """The value with secrets blanked, before JSON escapes hide them from the search."""
    if isinstance(value, str):
        return without_secrets(value, secrets)
    if isinstance(value, Mapping):
        return {str(name): _clean(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner, secrets) for inner in value]
    return value if isinstance(value, int | float | None) else without_secrets(str(value), secrets)


@contextmanager
def fields(**values: object) -> Iterator[None]:
    """Every record of this task has these fields."""
    token = about.set((*about.get(), *values.items()))
    try:
        yield
    finally:
        about.reset(token)


class JsonLines(logging.Formatter):
    """A record as one JSON object; `extra={"fields": {...}}` adds fields, an exception is the field traceback."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._settings = settings

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        extra: dict[str, object] = {**dict(about.get()), **getattr(record, "fields", {})}
        if record.exc_info and record.exc_info[0]:
            extra["traceback"] = self.formatException(record.exc_info)
        return line(self._settings, record.created, record.levelno, record.name, record.getMessage(), **extra)


def install(settings: LogSettings, logger: str) -> None:
    """Every record, warning and uncaught exception of this process goes to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(settings))
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    log = logging.getLogger(logger)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            log.critical("%s: %s", kind.__name__, error, exc_info=(kind, error, trace))

    def in_thread(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None:
            uncaught(failed.exc_type, failed.exc_value, failed.exc_traceback)

    sys.excepthook = uncaught
    threading.excepthook = in_thread


def say(logger: str, message: str, level: int = logging.INFO, *, text: str = "", **more: object) -> None:
    """A record where this process logs JSON, else the plain text: on standard output, complaints on standard error."""
    if any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers):
        logging.getLogger(logger).log(level, "%s", message, extra={"fields": more})
    else:
        print(text or message, file=sys.stdout if level < logging.WARNING else sys.stderr, flush=True)
