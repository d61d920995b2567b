"""Limits of what a small body can make the engine do: grammars to compile, lists to validate. Pure; rows.

An engine compiles a grammar in a thread that nothing stops, and validates each item of a list against every shape that
it knows. Both cost far more than the bytes of a body say, and both keep other requests waiting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.front.refusal import Refusal

GRAMMARS = ("structured_outputs", "response_format", "text", "tools", "functions", "output_config", "output_format")
"""Fields of a body that hold schemas, patterns or grammars."""
LISTS = ("messages", "input", "tools", "functions", "documents", "queries", "items", "content_parts", "conversations")
"""Fields of a body whose items the engine validates one by one against several shapes."""
MOST_ITEMS = 2_048
"""Objects of one such list. vLLM 0.32 holds each against all shapes that it knows."""
PATTERNS = frozenset({"regex", "grammar", "pattern", "structural_tag"})
LONGEST_PATTERN = 16_384
"""Characters of a pattern or a grammar."""
LONGEST_SCHEMA = 262_144
"""Characters of a schema that is sent as text."""
MOST_PROPERTIES = 256
"""Properties of one object: within these limits xgrammar 0.2.8 compiles any schema that was tried in 1.2 s."""
MOST_KEYS = 16_384
"""Keys of all schemas of a body."""
MOST_CHOICES = 2_048
"""Items of an enum, a choice or another list of a schema: 0.3 s to compile."""


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    value: object


def check(document: Mapping[str, Any]) -> None:
    """Refuse a body whose grammars or lists cost the engine more than the limits allow."""
    for name in LISTS:
        found = document.get(name)
        if isinstance(found, list) and sum(isinstance(item, (dict, list)) for item in found) > MOST_ITEMS:
            raise _refusal(name, f"more than {MOST_ITEMS} items")
    for turn in _each_message(document.get("messages")):
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str):
            raise Refusal(400, 'each of messages must be an object with a "role"; send it', param="messages")
    for name in GRAMMARS:
        if (value := document.get(name)) is not None:
            _check_grammar(name, value)


def _each_message(messages: object) -> Iterator[object]:
    """Each message; a batch has lists of conversations in the place of messages."""
    for item in messages if isinstance(messages, list) else ():
        if not isinstance(item, list):
            yield item
            continue
        if len(item) > MOST_ITEMS:
            raise _refusal("messages", f"more than {MOST_ITEMS} items")
        yield from item


def _check_grammar(name: str, value: object) -> None:
    keys = 0
    for part in _parts(name, value):
        inner = part.value
        if isinstance(inner, dict):
            keys += len(inner)
            if part.name == "properties" and len(inner) > MOST_PROPERTIES:
                raise _refusal(name, f"an object of more than {MOST_PROPERTIES} properties")
        elif isinstance(inner, list) and len(inner) > MOST_CHOICES:
            raise _refusal(name, f"a list of more than {MOST_CHOICES} items")
        elif isinstance(inner, str) and part.name in PATTERNS and len(inner) > LONGEST_PATTERN:
            raise _refusal(name, f"a pattern or grammar of more than {LONGEST_PATTERN} characters")
        if keys > MOST_KEYS:
            raise _refusal(name, f"schemas of more than {MOST_KEYS} keys")


def _parts(name: str, value: object) -> Iterator[_Part]:
    """Every value below, with the name that it stands under; a schema that is sent as text is read."""
    left = [_Part(name, value)]
    while left:
        part = left.pop()
        yield part
        if isinstance(part.value, dict):
            left.extend(_Part(key, inner) for key, inner in part.value.items())
        elif isinstance(part.value, list):
            left.extend(_Part(part.name, inner) for inner in part.value)
        elif isinstance(part.value, str) and part.name in ("json", "schema", "structural_tag"):
            left.append(_Part("schema", _read(name, part.value)))


def _read(name: str, text: str) -> object:
    if len(text) > LONGEST_SCHEMA:
        raise _refusal(name, f"a schema of more than {LONGEST_SCHEMA} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None  # the engine says what is wrong with it
    return document if isinstance(document, (dict, list)) else None


def _refusal(name: str, what: str) -> Refusal:
    return Refusal(400, f"{name} holds {what}; send a smaller one", param=name)
