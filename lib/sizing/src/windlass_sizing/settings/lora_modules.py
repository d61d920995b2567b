"""Reads the text of --lora-modules and LORA_MODULES: `name=path …`, JSON objects, or one JSON list of either. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

FIELDS = {"name": str, "path": str, "base_model_name": str, "is_3d_lora_weight": bool, "merge": bool}
WORD = re.compile(r"[^\s,]+")
BETWEEN = ", \t\r\n"


@dataclass(frozen=True, slots=True)
class Given:
    """An adapter of --lora-modules, as it was written."""

    name: str
    path: str
    base_model_name: str = ""
    is_3d_lora_weight: bool = False
    merge: bool = False


def split(text: str) -> tuple[str, ...] | None:
    """The adapters as single texts, each of which `read` understands; None when one of them is wrong."""
    try:
        items = _items(text)
        return tuple(items) if items and all(_read(item) for item in items) else None
    except RecursionError:
        return None  # JSON deeper than any list of adapters


def read(item: str) -> Given:
    """One item of `split`."""
    given = _read(item)
    if given is None:
        raise ValueError(item)
    return given


def write(given: Given, path: str) -> str:
    """The adapter as the engine reads it; a comma in a path is what its short form cannot hold."""
    if not given.base_model_name and not given.is_3d_lora_weight and "," not in f"{given.name}{path}":
        return f"{given.name}={path}"
    body: dict[str, object] = {"name": given.name, "path": path}
    if given.base_model_name:
        body["base_model_name"] = given.base_model_name
    if given.is_3d_lora_weight:
        body["is_3d_lora_weight"] = True
    return json.dumps(body)


def _items(text: str) -> list[str] | None:
    if text.lstrip().startswith("["):
        return _list(text)
    found, rest = [], text.lstrip(BETWEEN)
    while rest:
        try:
            item, end = _first(rest)
        except ValueError:
            return None
        found.append(item)
        rest = rest[end:].lstrip(BETWEEN)
    return found


def _first(text: str) -> tuple[str, int]:
    """The item that a text begins with, and its length there."""
    if text.startswith("{"):
        body, end = json.JSONDecoder().raw_decode(text)
        return json.dumps(body), end
    word = WORD.match(text)
    return (word[0], word.end()) if word else (text, len(text))


def _list(text: str) -> list[str] | None:
    try:
        items = json.loads(text)
    except ValueError:
        return None
    texts: list[str] = []
    for item in items:
        if isinstance(item, str) and item.lstrip().startswith(("[", "{")):
            inner = _items(item)
            if inner is None:
                return None
            texts += inner
        else:
            texts.append(item if isinstance(item, str) else json.dumps(item))
    return texts


def _read(item: str) -> Given | None:
    if not item.startswith("{"):
        name, equals, path = item.partition("=")
        return Given(name, path) if equals and name and path else None
    body = json.loads(item)
    if not all(key in FIELDS and isinstance(value, FIELDS[key]) for key, value in body.items() if value is not None):
        return None
    known = {key: value for key, value in body.items() if value is not None}
    return Given(**known) if known.get("name") and known.get("path") else None
