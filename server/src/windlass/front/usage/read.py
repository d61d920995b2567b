"""Token counts in an answer of the engine, as bytes of JSON or of server-sent events. Pure.

A quote inside a JSON string is escaped, so `"usage":{` with bare quotes is always a field and never text of the model.
It may be a field of the request: /v1/responses repeats the request's tools. So its place in the JSON decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FIELD = b'"usage":'
USAGE = re.compile(rb'"usage":\s?\{')
USAGE_BYTES = 4096
"""The longest usage object that is read."""
PARSED_BYTES = 1024**2
"""JSON that is parsed for one count at most: some ten milliseconds."""
NO_CHOICES = b'"choices":[]'
"""Marks the event that vLLM adds to a stream for `include_usage`."""
HOLDERS = ("message", "response", "delta")
"""Objects of an event in which its usage may stand, if not at its top level."""
LAST_TYPES = ("message_delta", "message-end", "response.completed", "response.incomplete", "response.failed")
"""Types of the event whose usage is the whole answer's; chat has an event without choices instead."""
DONE = b"data: [DONE]"
EVENT_END = b"\n\n"
IN = ("prompt_tokens", "input_tokens")
OUT = ("completion_tokens", "output_tokens")
TOTAL = "total_tokens"
CACHED = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Prompt tokens that Anthropic's `input_tokens` leaves out."""
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


@dataclass(frozen=True, slots=True)
class Count:
    """The count of one event of a stream."""

    tokens: Tokens
    is_last: bool
    """Whether it is the count of the whole answer."""


def of_answer(data: bytes, *, is_cut: bool) -> Tokens | None:
    """The counts of a whole answer; None without a usage field at the top level. `is_cut`: its begin is left out."""
    at, left = len(data), PARSED_BYTES
    while (at := data.rfind(FIELD, 0, at)) >= 0:
        match = USAGE.match(data, at)
        if match is None:
            continue
        others = b"{" + data[at:] if is_cut or at > len(data) - at else data[:at] + b'"usage":0}'
        left -= len(others)
        if left < 0:
            return None
        # Such JSON is whole with one brace more only where the field stands in one object and in nothing else.
        if _object(others):
            return _of(_first_object(data[match.end() - 1 :][:USAGE_BYTES]))
    return None


def of_events(data: bytes) -> Count | None:
    """The counts of the events in the data; None where no event has one."""
    found = None
    for line in data.splitlines():
        if line.startswith(b"data:") and len(line) <= PARSED_BYTES and USAGE.search(line):
            event = _object(line[len(b"data:") :].strip())
            for tokens in _counts(event):
                before, was_last = (found.tokens, found.is_last) if found else (tokens, False)
                found = Count(tokens.most(before), was_last or _is_last(event))
    return found


def is_done(data: bytes) -> bool:
    """Whether an event says that the stream is over; text of the model that says so has no line of its own."""
    return DONE in data and (data.startswith(DONE) or b"\n" + DONE in data)


def without_usage_event(data: bytes) -> bytes:
    """The events without the usage event, which has no choices."""
    return EVENT_END.join(event for event in data.split(EVENT_END) if NO_CHOICES not in event)


def _is_last(event: Mapping[str, Any]) -> bool:
    return event.get("type") in LAST_TYPES or event.get("choices") == []


def _counts(event: Mapping[str, Any]) -> Iterator[Tokens]:
    for holder in (event, *(event.get(name) for name in HOLDERS)):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict) and (tokens := _of(usage)):
            yield tokens


def _object(data: bytes) -> dict[str, Any]:
    """The JSON object that the data is; empty where it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_object(data: bytes) -> dict[str, Any]:
    """The JSON object at the start of the data; empty where it is cut off."""
    try:
        found, _ = DECODER.raw_decode(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _of(usage: Mapping[str, Any]) -> Tokens | None:
    """None for a usage without tokens. A sound file's has its seconds alone, which count as none."""
    inner = usage.get("tokens")
    usage = inner if isinstance(inner, dict) else usage  # Cohere's events
    if not any(type(usage.get(name)) is int for name in (*IN, *OUT, TOTAL)):
        return Tokens() if usage.get("type") == "duration" else None
    details: Mapping[str, Any] = next((usage[name] for name in DETAILS if isinstance(usage.get(name), dict)), {})
    in_, out = _first(usage, IN), _first(usage, OUT)
    if IN[0] not in usage:
        in_ += sum(_count(usage.get(name)) for name in CACHED)
    if not in_ and not out:
        in_ = _count(usage.get(TOTAL))
    return Tokens(in_, out, _count(details.get("cached_tokens")) or _count(usage.get(CACHED[0])))


def _first(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return next((count for name in names if (count := _count(usage.get(name)))), 0)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
