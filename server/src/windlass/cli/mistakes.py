"""What `windlass` says of words that typer refuses: one sentence, with the word and what to write in its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer.exceptions import TyperException

REMEDIES = (
    (r"valid integer", "which is no whole number; write digits, as 8192"),
    (r"valid number", "which is no number; write it as 0.5"),
    (r"greater than or equal to (\S+)", "which is too small; give {0} or more"),
    (r"less than or equal to (\S+)", "which is too large; give {0} or less"),
    (r"is not one of ('.+')", "which is not known; choose {0}"),
)
"""Typer's own words of a value, and ours."""


def sentence(error: TyperException, words: Sequence[str]) -> str:
    """What is wrong, where, and what to write; `words` are those behind `windlass`."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "windlass"
    return f"{_wrong(error, words)}; see {command} --help"


def _wrong(error: TyperException, words: Sequence[str]) -> str:
    if command := re.fullmatch(r"No such command '(.+?)'.*", error.message):
        return _no_command(command[1], error)
    if extra := re.fullmatch(r"Got unexpected extra arguments? ?\(.*?\)? ?\((.*)\)", error.message):
        return f'"{extra[1]}" belongs to no option'
    if option := getattr(error, "option_name", ""):
        near = getattr(error, "possibilities", None) or ()
        if hasattr(error, "possibilities"):
            return f"there is no option {option}{f'; write {min(near)}' if near else ''}"
        return f"{option} needs a value; write it behind the option"
    names = _names(error)
    for pattern, remedy in REMEDIES:
        if names and (found := re.search(pattern, error.message)):
            return f'{names[0]} is "{_value(names, words)}", {remedy.format(*found.groups())}'
    words_of_typer = re.sub(r"\.\s+Choose from:", "; choose one of", error.format_message())
    return " ".join(words_of_typer.split()).rstrip(".")


def _no_command(name: str, error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    known = context.command.list_commands(context) if context else []
    near = get_close_matches(name, known, 1) or [f"one of {', '.join(known)}"]
    return f"there is no command {name}; write {near[0]}"


def _names(error: TyperException) -> list[str]:
    """The spellings of the option or argument, the longest first."""
    return sorted(getattr(getattr(error, "param", None), "opts", ()), key=len, reverse=True)


def _value(names: Sequence[str], words: Sequence[str]) -> str:
    """The word that was given to an option."""
    names = [one for one in names if one.startswith("-")]
    for at, word in enumerate(words):
        name, joined, value = word.partition("=")
        if name.replace("_", "-") in names:
            return value if joined else "".join(words[at + 1 : at + 2])
    return words[-1]
