"""The flags of the engine's own server as a record: which there are, and what each takes behind it.

The server holds a command line to the record before anything is started, and the plan reads shortened flags by it. The
record, `engine_flags.json`, is written from the engine's own parser by `tools/engine_flags.py`. A test in the serving
image reads the parser again and fails when the two differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

RECORD = Path(__file__).with_name("engine_flags.json")


class ValueCount(Enum):
    """How many words behind a flag are its value."""

    NOTHING = "nothing"
    ONE = "one"
    MAYBE = "one or none"
    MANY = "one or more"


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """Every spelling of every flag of a release, `-tp` and `--no-…` included, and what it takes."""

    release: str
    takes: Mapping[str, ValueCount]

    def meant(self, name: str) -> str:
        """The flag that a name, or its beginning, stands for; the name itself when there is none, or several."""
        if not name.startswith("--") or name in self.takes:
            return name
        found = [flag for flag in self.takes if flag.startswith(name)]
        return found[0] if len(found) == 1 else name

    def flag_of(self, word: str) -> str:
        """The flag that a word names, in full and with dashes, without a value or a key that is joined to it."""
        return self.meant(_written(word).replace("_", "-"))

    def in_full(self, word: str) -> str:
        """A word with its flag's whole name, with dashes; a value or a key that is joined to it stays as it is."""
        return self.flag_of(word) + word[len(_written(word)) :] if word.startswith("--") else word


def _written(word: str) -> str:
    return re.split(r"[=.]", word, maxsplit=1)[0]


@cache
def record() -> EngineFlags:
    """The record that this distribution brings."""
    found = json.loads(RECORD.read_text())
    return EngineFlags(found["release"], {name: ValueCount(text) for name, text in found["flags"].items()})
