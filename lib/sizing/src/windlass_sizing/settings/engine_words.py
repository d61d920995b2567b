"""Holds the engine's own words of a command line to the record of its flags: a misspelled one ends the start. Pure.

A word means what the engine's parser makes of it: underscores are dashes, `--flag.key` sets a key of a JSON flag, a
unique beginning stands for the whole name, and `-O3` needs no space.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from itertools import pairwise

from windlass_sizing.engine_flags import EngineFlags, ValueCount, record
from windlass_sizing.errors import SettingsError

ALLOW = "allow-unknown-flags"
NEAR = 0.7
"""Least likeness of two names, as difflib counts it, for one to be named in place of the other."""
SHOWN_MAX = 4
NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""A word that is a value although it begins with a dash, as argparse has it."""
LEVEL, LEVELS, LEVEL_FLAG = "-O", ("0", "1", "2", "3"), "--optimization-level"
"""The engine reads `-O3`, `-O=3` and `-O 3` itself, before argparse does."""


def check(words: Iterable[str], engine: EngineFlags, ours: Iterable[str] = ()) -> None:
    """SettingsError for a flag that the engine lacks, a word of no flag, or a value too many or too few."""
    waiting, last = list(words), ""
    while waiting:
        word = waiting.pop(0)
        if not _is_flag(word):
            raise SettingsError(_stray(word, last, engine))
        if word.startswith(LEVEL) and (len(word) > len(LEVEL) or (waiting and waiting[0] in LEVELS)):
            word = f"{LEVEL_FLAG}={word.removeprefix(LEVEL) or waiting.pop(0)}"
        last = _spelled(word, engine, tuple(ours))
        _values(word, last, engine, waiting)


def flags(words: Iterable[str]) -> tuple[str, ...]:
    """The engine's flags that the words name, in their order and in full, however they are written."""
    return tuple(record().flag_of(word) for word in words if _is_flag(word))


def values(words: Sequence[str], engine: EngineFlags, wanted: Collection[str]) -> dict[str, str]:
    """What the words say for these flags of the record, however they are written; the last of two equal flags wins."""
    found = {}
    for word, following in pairwise((*words, "")):
        name, joined, value = word.partition("=")
        flag = engine.meant(name.replace("_", "-"))
        if flag in wanted:
            found[flag] = value if joined else following
    return found


def _is_flag(word: str) -> bool:
    name = word.partition("=")[0]
    return len(name) > 1 and name[0] == "-" and name != "--" and " " not in name and not NUMBER.fullmatch(word)


def _stray(word: str, last: str, engine: EngineFlags) -> str:
    if last and engine.takes[last] is ValueCount.NOTHING:
        return f'"{word}" belongs to no flag: {last} takes no value; leave one of them out'
    return f'"{word}" belongs to no flag; the model directory is the first word, each value stands behind its flag'


def _spelled(word: str, engine: EngineFlags, ours: tuple[str, ...]) -> str:
    """The flag of the record that a word means."""
    written = word.partition("=")[0].partition(".")[0]
    name = written.replace("_", "-") if written.startswith("--") else written
    if name in engine.takes:
        return name
    if not name.startswith("--") and name[:2] in engine.takes:
        return name[:2]  # the value is joined to it, as -O3
    found = [flag for flag in engine.takes if flag.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        more = ", …" if len(found) > SHOWN_MAX else ""
        raise SettingsError(
            f"{written} is the beginning of {', '.join(found[:SHOWN_MAX])}{more}; write one of them in full"
        )
    raise SettingsError(_unknown(written, name, engine, ours))


def _unknown(written: str, name: str, engine: EngineFlags, ours: tuple[str, ...]) -> str:
    # Without the dashes, which all have in common: they would make --tp look like --top-p.
    known = [flag.removeprefix("--") for flag in engine.takes if flag.startswith("--")]
    near = get_close_matches(name.removeprefix("--"), [*known, *ours], 1, NEAR)
    instead = f"write --{near[0]}" if near else "see windlass run --help"
    return f"there is no flag {written}, nor has vLLM {engine.release} one; {instead}, or add --{ALLOW} to pass it on"


def _values(word: str, flag: str, engine: EngineFlags, waiting: list[str]) -> None:
    """Take the words that are the flag's value."""
    name, joined, _ = word.partition("=")
    takes = ValueCount.ONE if "." in name else engine.takes[flag]
    if joined and takes is ValueCount.NOTHING:
        raise SettingsError(f"{flag} takes no value; write {flag} alone")
    if joined or (flag == name[:2] and name != flag):
        return
    if takes in {ValueCount.ONE, ValueCount.MANY} and (not waiting or _is_flag(waiting[0])):
        raise SettingsError(f"{flag} needs a value; write it behind the flag")
    count = next((at for at, one in enumerate(waiting) if _is_flag(one)), len(waiting))
    most = {ValueCount.NOTHING: 0, ValueCount.ONE: 1, ValueCount.MAYBE: 1, ValueCount.MANY: count}[takes]
    del waiting[: min(count, most)]
