"""The YAML form of a key file: each key with a name, and what its holder may use. Pure.

A sentence about a wrong document names the place and the right form. It never repeats a value: that may be a key.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import yaml

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
SUFFIXES = (".yaml", ".yml", ".json")
FIRST = re.compile(r"\{|keys\s*:")
"""How the first line begins that is neither blank nor a comment."""
LONGEST = 1024**2
"""Characters; a Secret holds 1 MiB."""
SHORTEST_KEY = 8
ENTRY = "name, key, models, requestsPerMinute, tokensPerMinute, concurrency, expires"

Digest = bytes


class KeyDocumentError(ValueError):
    """A key document that cannot be used, as the end of a sentence about its file."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one key may use; None is no limit."""

    requests: int | None = None
    """A minute."""
    tokens: int | None = None
    """A minute, in and out."""
    concurrency: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return self.row != (None, None, None)

    @property
    def row(self) -> tuple[int | None, int | None, int | None]:
        """The limits as other processes get them."""
        return self.requests, self.tokens, self.concurrency


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a file: nothing of the key itself but hashes, which are not shown."""

    name: str
    digests: tuple[Digest, ...] = field(repr=False)
    id: str = field(repr=False)
    """By which the queue tells holders apart; never shown."""
    models: tuple[str, ...] = ()
    """Names that may be put into `model`; empty: all."""
    limits: Limits = Limits()
    expires_at: float | None = None
    """Seconds since 1970."""


def digest_of(key: str) -> Digest:
    """Hashed keys are equally long, so that comparing them tells nothing about their length."""
    return hashlib.sha256(key.encode()).digest()


def plain(key: str, name: str) -> Key:
    """A key of the plain form, which has no limits; it is named after where it stands."""
    digest = digest_of(key)
    return Key(name, (digest,), digest.hex()[:12])


def is_document(file_name: str, text: str) -> bool:
    """Whether a file is of this form and not of the plain one, by its name or by its first line."""
    rows = (row.strip() for row in text.splitlines())
    first = next((row for row in rows if row and not row.startswith(("#", "---"))), "")
    return file_name.lower().endswith(SUFFIXES) or bool(FIRST.match(first))


def parse(text: str) -> tuple[Key, ...]:
    """The keys of a document; `KeyDocumentError` says where it is wrong."""
    if len(text) > LONGEST:
        raise KeyDocumentError("is larger than 1 MiB; split it into several files")
    rows = _rows(_loaded(text))
    keys = tuple(_key(row, f"entry {number}") for number, row in enumerate(rows, 1))
    _check_once([key.name for key in keys], "name", "give each key a name of its own")
    _check_once([digest for key in keys for digest in key.digests], "key", "make a new one for one of the names")
    return keys


def _loaded(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The parser's own words repeat what it has read.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise KeyDocumentError(f'is not YAML{where}; write "keys:" and below it one "- name: …" for each key') from None
    except (ValueError, RecursionError):
        raise KeyDocumentError("holds a value that YAML does not allow; write dates as 2027-01-31") from None


def _rows(document: object) -> list[object]:
    rows = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or set(document if isinstance(document, Mapping) else ()) != {"keys"}:
        raise KeyDocumentError(
            'must hold "keys" alone, a list; write "keys:" and below it one "- name: …" for each key'
        )
    return rows


def _key(row: object, where: str) -> Key:
    if not isinstance(row, Mapping):
        raise KeyDocumentError(f"has no mapping as {where}; write its fields: {ENTRY}")
    name = row.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise KeyDocumentError(f"has no usable name in {where}; write 1 to 63 letters, digits, dots or dashes")
    where = f'{where} ("{name}")'
    if unknown := sum(field not in _FIELDS for field in row):
        raise KeyDocumentError(f"has {unknown} unknown field(s) in {where}; the fields are {ENTRY}")
    values = {field: _value(row, field, where) for field in _FIELDS}
    digests = tuple(map(digest_of, values["key"]))
    limits = Limits(values["requestsPerMinute"], values["tokensPerMinute"], values["concurrency"])
    return Key(name, digests, f"name:{name}", values["models"] or (), limits, values["expires"])


def _value(row: Mapping[Any, Any], name: str, where: str) -> Any:  # noqa: ANN401  what the field's row makes of it
    read, right, is_required = _FIELDS[name]
    raw = row.get(name)
    if raw is None and not is_required:
        return None
    value = read(raw)
    if value is None:
        raise KeyDocumentError(f"has no usable {name} in {where}; write {right}")
    return value


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _keys(value: object) -> tuple[str, ...] | None:
    keys: list[Any] = value if isinstance(value, list) else [value]
    right = all(isinstance(key, str) and len(key) >= SHORTEST_KEY and not re.search(r"\s", key) for key in keys)
    return tuple(keys) if keys and right else None


def _models(value: object) -> tuple[str, ...] | None:
    right = isinstance(value, list) and value and all(isinstance(name, str) and name for name in value)
    return tuple(value) if right and isinstance(value, list) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**53 else None


def _moment(value: object) -> float | None:
    """A date ends with its day, the last one of the calendar never; a time needs its zone."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value) if len(value) <= len("2027-01-31") else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.timestamp() if value.tzinfo else None
    if isinstance(value, date):
        if value == date.max:  # no day comes after it
            return math.inf
        return (datetime.combine(value, time(), UTC) + timedelta(days=1)).timestamp()
    return None


_FIELDS: dict[str, tuple[Callable[[object], Any], str, bool]] = {
    "name": (_name, "a name", True),
    "key": (_keys, f"a text of at least {SHORTEST_KEY} characters without blanks, or a list of such", True),
    "models": (_models, "a list of model names, or leave it out for all", False),
    "requestsPerMinute": (_whole, "a whole number of at least 1, or leave it out for no limit", False),
    "tokensPerMinute": (_whole, "a whole number of at least 1, or leave it out for no limit", False),
    "concurrency": (_whole, "a whole number of at least 1, or leave it out for no limit", False),
    "expires": (_moment, "a day as 2027-01-31, or a time with its zone as 2027-01-31T12:00:00Z", False),
}


def _check_once(values: list[Any], what: str, advice: str) -> None:
    if len(set(values)) != len(values):
        raise KeyDocumentError(f"has the same {what} twice; {advice}")
