"""The flags of the engine's own server as a record: which there are, and what each takes behind it.

The server holds a command line to the record before anything is started, and the plan reads shortened flags by it. The
record, `engine_flags.json`, is written from the engine's own parser by `tools/engine_flags.py`. A test in the serving
image reads the parser again and fails when the two differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path

RECORD = Path(__file__).with_name("engine_flags.json")
ENGINES, PROMPT_RANKS = ("--data-parallel-size", "-dp"), ("--prefill-context-parallel-size", "-pcp")
"""Two flags that multiply the GPUs of a server, each with its short name: equal engines, and GPUs that share prompts.
"""
PLACED = frozenset(
    {
        *("--data-parallel-address", "-dpa", "--data-parallel-rank", "-dpn", "--data-parallel-start-rank", "-dpr"),
        *("--data-parallel-size-local", "-dpl", "--data-parallel-hybrid-lb", "-dph"),
        *("--data-parallel-external-lb", "-dpe", "--data-parallel-multi-port-external-lb", "-dpm"),
    }
)
"""Flags by which some of the equal engines may be on other machines."""
COUNT_DIGITS_MAX = 9


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


def count_of(words: Sequence[str], names: Collection[str]) -> int | None:
    """The whole number that the words give last to the flag of these names; None where they give none."""
    found = None
    for word, following in pairwise((*words, "")):
        if word.startswith("-") and record().flag_of(word) in names:
            _, joined, value = word.partition("=")
            found = value if joined else following
    is_whole = found is not None and found.isascii() and found.isdecimal() and len(found) <= COUNT_DIGITS_MAX
    return int(found) if found is not None and is_whole else None


@cache
def record() -> EngineFlags:
    """The record that this distribution brings."""
    found = json.loads(RECORD.read_text())
    return EngineFlags(found["release"], {name: ValueCount(text) for name, text in found["flags"].items()})
