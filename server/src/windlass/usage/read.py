"""Token counts in an answer of the engine, as bytes of JSON or of server-sent events. Pure.

A quote inside a JSON string is escaped, so `"usage":{` with bare quotes is always a field and never text of the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIELD = b'"usage":'
USAGE = re.compile(rb'"usage":\s?\{')
NO_CHOICES = b'"choices":[]'
"""Marks the event that vLLM adds to a stream for `include_usage`."""
LAST = (NO_CHOICES, b'"message_delta"', b'"response.completed"', b'"response.incomplete"')
"""Marks of the event whose usage is the whole answer's."""
DONE = b"data: [DONE]"
EVENT_END = b"\n\n"
IN = ("prompt_tokens", "input_tokens")
OUT = ("completion_tokens", "output_tokens")
DECODER = json.JSONDecoder()
DETAILS = ("prompt_tokens_details", "input_tokens_details")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of one answer, or of many."""

    in_: int = 0
    out: int = 0
    cached: int = 0
    """Prompt tokens that the prefix cache had."""

    def most(self, other: Tokens) -> Tokens:
        """The later of two counts of one answer: counts only grow."""
        return Tokens(max(self.in_, other.in_), max(self.out, other.out), max(self.cached, other.cached))


def find(data: bytes) -> Tokens | None:
    """The counts of the last usage field in the data; None without one."""
    end = len(data)
    while (at := data.rfind(FIELD, 0, end)) >= 0:
        if match := USAGE.match(data, at):
            return _read(data, match.end() - 1)
        end = at
    return None


def is_last(data: bytes) -> bool:
    """Whether this event counts the whole answer."""
    return any(mark in data for mark in LAST)


def without_usage_event(data: bytes) -> bytes:
    """The events without the usage event, which has no choices."""
    return EVENT_END.join(event for event in data.split(EVENT_END) if NO_CHOICES not in event)


def _read(data: bytes, at: int) -> Tokens | None:
    try:
        usage, _ = DECODER.raw_decode(data[at:].decode(errors="replace"))
    except ValueError:
        return None
    return _of(usage) if isinstance(usage, dict) else None


def _of(usage: Mapping[str, Any]) -> Tokens:
    inner = usage.get("tokens")
    usage = inner if isinstance(inner, dict) else usage  # Cohere's events
    details: Mapping[str, Any] = next((usage[name] for name in DETAILS if isinstance(usage.get(name), dict)), {})
    in_, out = _first(usage, IN), _first(usage, OUT)
    if not in_ and not out:
        in_ = _count(usage.get("total_tokens"))
    return Tokens(in_, out, _count(details.get("cached_tokens")) or _count(usage.get("cache_read_input_tokens")))


def _first(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return next((count for name in names if (count := _count(usage.get(name)))), 0)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
