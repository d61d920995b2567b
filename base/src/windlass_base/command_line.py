"""argparse with underscores for dashes and one sentence for a wrong command line. Standard library only."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import ClassVar, NoReturn

CHOICE = re.compile(r"argument (?P<what>\S+): invalid choice: '?(?P<word>.*?)'? \(choose from (?P<known>.*)\)")
CODE = 2


class Parser(argparse.ArgumentParser):
    """One sentence for a wrong word, and the nearest one that is known. A program's subclass has its `program`."""

    program: ClassVar[str]

    def parse_args(self, args: Sequence[str] | None = None, namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """The options, or the end with a sentence; `--all_namespaces` is `--all-namespaces`."""
        words = [_dashed(word) for word in (sys.argv[1:] if args is None else args)]
        options, unknown = self.parse_known_args(words, namespace)
        if unknown:
            self.error(_unknown(unknown[0], _options(self, words)))
        return options

    def error(self, message: str) -> NoReturn:
        """Print the sentence, and leave."""
        self.exit(CODE, f"{self.program}: {sentence(message)}; see {self.prog} --help\n")


def sentence(message: str) -> str:
    """argparse's words on a choice in ours; any other message as it is."""
    found = CHOICE.fullmatch(message)
    if not found:
        return message.removeprefix("argument ").rstrip(".")
    given, known = found["word"], [word.strip(" '\"") for word in found["known"].split(",")]
    if found["what"] == "COMMAND":
        near = get_close_matches(given, known, 1)
        return f"there is no command {given}; write {near[0] if near else 'one of ' + ', '.join(known)}"
    return f'{found["what"].rpartition("/")[2]} is "{given}"; choose one of {", ".join(known)}'


def _dashed(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def _options(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The options of the parser, and of the command that the words name."""
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings
        chosen = action.choices if isinstance(action.choices, dict) else {}
        for name in {*words} & {*chosen}:
            found += _options(chosen[name], words)
    return found


def _unknown(word: str, options: Sequence[str]) -> str:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return f'"{name}" belongs to no option'
    near = get_close_matches(name, options, 1)
    return f"there is no option {name}{f'; write {near[0]}' if near else ''}"
