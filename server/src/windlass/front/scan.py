"""How much work a JSON body is, measured over its bytes before anything is parsed. Pure, and linear in its length.

Every step runs in C over the whole body, so that measuring costs milliseconds a mebibyte. For valid JSON in UTF-8 the
numbers are exact. A parser stops at the first error, so for anything else they are at least what it will have built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from windlass.front.refusal import Refusal

MIB = 1024**2
KEY_SHARE = 4
"""A fourth of a body's values may be keys, lists or objects: those take 10 times the memory of a number."""
LONGEST_NUMBER = 40
"""Digits in a row; a double has 17 that count, a 128-bit integer 39."""
LONG_NUMBER = re.compile(rb"(?<![0-9])[0-9]{%d}" % (LONGEST_NUMBER + 1))
SHORTEST_MEDIA = 4096
"""Bytes; a string of base64 below it counts as text."""
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-\\"
DATA = b"data:"
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """What a body may hold."""

    text_bytes: int = 8 * MIB
    """All of it but media: two million tokens of text have about 8 MB."""
    values: int = 262_144
    """Numbers, strings, lists, objects: a prompt of so many token ids is one body."""
    depth: int = 64
    """Lists and objects in each other; schemas of tools nest some 20."""

    @property
    def keys(self) -> int:
        """Most keys; and most lists and objects."""
        return self.values // KEY_SHARE


def check(raw: bytes, limits: JsonLimits) -> None:
    """Refuse a body that is more work than the limits allow."""
    unescaped = _unescaped(raw)
    # Before anything is built whose length the body decides: each string is a key or a value.
    _most("values", unescaped.count(b'"') // 2 - limits.keys, limits.values)
    pieces = unescaped.split(b'"')
    outside = b"".join(pieces[::2])
    containers = outside.count(b"[") + outside.count(b"{")
    _most("values", outside.count(b",") + containers, limits.values)
    _most("lists and objects", containers, limits.keys)
    _most("keys", outside.count(b":"), limits.keys)
    if _depth(outside) > limits.depth:
        raise _refusal(400, f"lists and objects nested more than {limits.depth} deep")
    if LONG_NUMBER.search(outside):
        raise _refusal(400, f"a number of more than {LONGEST_NUMBER} digits")
    if len(raw) > limits.text_bytes and len(raw) - _media_bytes(pieces[1::2]) > limits.text_bytes:
        raise _refusal(413, f"more than {limits.text_bytes / MIB:g} MiB besides media in base64")


def _unescaped(raw: bytes) -> bytes:
    # A run of backslashes begins with an escape, so pairs of them are taken from its left, as a parser does.
    return raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw


def _depth(outside: bytes) -> int:
    brackets = outside.translate(None, NOT_BRACKETS)
    return max(accumulate(map(STEP.__getitem__, brackets)), default=0)


def _media_bytes(strings: Sequence[bytes]) -> int:
    return sum(len(text) for text in strings if _is_media(text))


def _is_media(text: bytes) -> bool:
    if len(text) < SHORTEST_MEDIA:
        return False
    return text.startswith(DATA) or not text.translate(None, BASE64)


def _most(what: str, found: int, most: int) -> None:
    if found > most:
        raise _refusal(413, f"more than {most} {what}")


def _refusal(status: int, what: str) -> Refusal:
    return Refusal(status, f"the body holds {what}; send less, or split the request")
