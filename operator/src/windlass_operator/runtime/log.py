"""The operator's own log: one line for each record, whatever is quoted in it; text, or JSON objects."""

from __future__ import annotations

import logging
import os

from windlass_base import json_lines

# A line for each request and each event tells nobody anything; and anybody can send what is no HTTP.
CHATTY = {
    "httpx2": logging.WARNING,
    "kopf.objects": logging.WARNING,
    "kopf.activities": logging.WARNING,
    "uvicorn.error": logging.ERROR,
}


class OneLine(logging.Formatter):
    """Escapes what cannot be printed: pods, Jobs and users are quoted, and must not write lines of their own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """The record's line; the traceback of an exception of ours follows it as ever."""
        record.message = escaped(record.message)
        return super().formatMessage(record)


def escaped(text: str) -> str:
    r"""The text with `\n`, `\x1b` and the like in the place of what they stand for."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def start() -> None:
    """Log to stderr as the environment says; ValueError names a wrong variable."""
    settings = json_lines.read(os.environ)
    if settings.is_json:
        json_lines.install(settings, "windlass_operator")
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=settings.level, handlers=[handler])
    for name, level in CHATTY.items():
        logging.getLogger(name).setLevel(level)
