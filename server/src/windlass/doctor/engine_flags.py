"""The flags of the engine's own server as a record: which there are, and what each takes behind it.

`launch.engine_words` holds a command line to the record before anything is started. The record, `engine_flags.json`, is
written from the engine's own parser by `tools/engine_flags.py`. A test in the serving image reads the parser again and
fails when the two differ.
"""

from __future__ import annotations

import json
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


@cache
def record() -> EngineFlags:
    """The record that this distribution brings."""
    found = json.loads(RECORD.read_text())
    return EngineFlags(found["release"], {name: ValueCount(text) for name, text in found["flags"].items()})
