"""A config.json as one place to ask: what the file says, then what the library fills in where the file is silent.

A loader never sees a config.json alone: its class adds defaults. `library.json` holds those defaults for each
`model_type`, so that a file that leaves sizes out is counted as the model that would be built from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from windlass_sizing.model.keys import FLATTENED, SPELLINGS, TEXT_PARTS

PARTS = "parts"  # in the library: which model_type a nested part has


@cache
def library() -> dict[str, dict[str, Any]]:
    """Library defaults by `model_type`; `parts` names the types of nested parts."""
    found: dict[str, dict[str, Any]] = json.loads(
        resources.files("windlass_sizing.model").joinpath("library.json").read_text()
    )
    return found


@cache
def size_keys() -> dict[str, frozenset[str]]:
    """The whole numbers on which the parameters of each `model_type` depend: `bench/size_keys.py` finds them."""
    record = json.loads(resources.files("windlass_sizing.model").joinpath("size_keys.json").read_text())
    return {kind: frozenset(keys) for kind, keys in record["types"].items()}


class Watched(dict[str, Any]):
    """A file's own settings, which remember the keys that somebody reads."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.read = set[str]()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  a value out of JSON
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401
        """The value, which counts as read."""
        self.read.add(key)
        return super().get(key, default)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one part of a model: the file's own, the library's defaults, and the part around it."""

    model_type: str
    given: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    outer: Mapping[str, Any] = field(default_factory=dict)

    def get(self, *names: str) -> Any:  # noqa: ANN401  a value out of JSON, judged where it is used
        """The first of these keys that is set; a key that the file sets to null is not looked up further."""
        for source in (self.given, self.defaults, self.outer):
            if any(name in source for name in names):
                return next((source[name] for name in names if source.get(name) is not None), None)
        return None

    def number(self, fact: str) -> int | None:
        """The fact's whole number under any of its spellings; lists (one a layer) give their largest."""
        value = self.get(*SPELLINGS.get(fact, (fact,)))
        if isinstance(value, list):
            whole = [item for item in value if is_number(item)]
            return max(whole) if whole else None
        return value if is_number(value) else None

    def value_of(self, fact: str) -> int | None:
        """The fact as this model tells it: a nested part may leave sizes to the library, a whole file may not."""
        return self.number(fact) if self.outer else Settings(self.model_type, self.given).number(fact)

    def numbers(self, fact: str) -> list[int]:
        """The fact's numbers when it is a list, else one or none."""
        value = self.get(*SPELLINGS.get(fact, (fact,)))
        items = value if isinstance(value, list) else [value]
        return [item for item in items if is_number(item)]

    def flag(self, name: str) -> bool:
        """Whether a key is true."""
        return self.get(name) is True

    def items(self, name: str) -> list[Any]:
        """A key's list; empty when there is none."""
        value = self.get(name)
        return value if isinstance(value, list) else []


def unread(text: Settings) -> tuple[str, ...]:
    """The whole numbers of the file on which the class's parameters depend, and that nobody has read so far."""
    read = text.given.read if isinstance(text.given, Watched) else set(text.given)
    known = read | {name for names in SPELLINGS.values() for name in names}
    keys = size_keys().get(text.model_type, frozenset())
    return tuple(sorted(key for key, value in text.given.items() if key in keys - known and is_number(value) and value))


def is_number(value: object) -> bool:
    """Whether a JSON value is a whole number (true and false are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def text_settings(config: Mapping[str, Any]) -> Settings:
    """The language model's settings: a nested part when there is one, else the file itself."""
    outer_type = str(config.get("model_type") or "")
    parts = library().get(outer_type, {}).get(PARTS, {})
    for name in TEXT_PARTS:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            rest = {key: value for key, value in config.items() if key not in (name, "model_type")}
            nested = {"model_type": parts.get(name) or outer_type, **inner}
            found = text_settings(nested)
            return Settings(found.model_type, found.given, found.defaults, {**rest, **found.outer})
    model_type = next((parts[name] for name in TEXT_PARTS if name in parts), outer_type)
    return Settings(model_type, Watched(_flat(config)), library().get(model_type, {}))


def part_settings(config: Mapping[str, Any], name: str) -> Settings | None:
    """A nested part other than the language model (vision, audio); None when the model has none."""
    inner = config.get(name)
    kind = library().get(str(config.get("model_type") or ""), {}).get(PARTS, {}).get(name, "")
    if not isinstance(inner, Mapping):
        # A part that the file sets to null is not built; one that it leaves out is, from the library's defaults.
        if name in config or not kind:
            return None
        inner = {}
    model_type = str(inner.get("model_type") or "")
    # Some files name the whole model's type in the part.
    known = model_type if PARTS not in library().get(model_type, {PARTS: ""}) else str(kind)
    return Settings(known or model_type, _flat(inner), library().get(known, {}))


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with those of nested groups (`ffn_config`) laid beside them."""
    flat = dict(config)
    for name in FLATTENED:
        if isinstance(config.get(name), Mapping):
            flat = {**config[name], **flat}
    return flat
