"""What every program does with its words and its standard output. Standard library only.

argparse takes underscores for dashes and says one sentence for a wrong command line. A `main` under `output_checked`
ends in order where standard output cannot be written.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import wraps
from typing import ClassVar, NoReturn, ParamSpec, Self, TextIO, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

CHOICE = re.compile(r"argument (?P<what>\S+): invalid choice: '?(?P<word>.*?)'? \(choose from (?P<known>.*)\)")
CODE = 2
OUTPUT_CODE = 1
"""Exit code where standard output cannot be written."""


class OutputError(OSError):
    """Standard output cannot be written: its reader has gone, or there is no room. `output_checked` handles it."""


def output_checked(program: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a `main`: 0 where the reader of standard output has gone, a sentence and 1 where it cannot be written.

    An exit code of the program's own stands, and so does an OSError of any other file. Do not nest it.
    """

    def around(main: Callable[P, R]) -> Callable[P, R]:
        @wraps(main)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            output = _Output(sys.stdout)
            try:
                with output:
                    result = main(*args, **kwargs)
            except BaseException as error:
                code = output.end(program)
                if output.failure is None or not _is_of_output(error):
                    raise
            else:
                code = output.end(program)
                if output.failure is None or result:
                    return result
            raise SystemExit(code)

        return checked

    return around


class _Output:
    """Standard output while a `main` runs: its write and flush keep their first failure and raise OutputError."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out  # None where the program was started with standard output closed
        self._before: dict[str, object] = {}
        self.failure: OutputError | None = None

    def __enter__(self) -> Self:
        if self._out is not None:
            self._before = {**vars(self._out)}
            vars(self._out).update(write=self._checked(self._out.write), flush=self._checked(self._out.flush))
        return self

    def __exit__(self, *_: object) -> None:
        if self._out is None:
            return
        with suppress(OutputError, ValueError):  # ValueError: it is closed
            self._out.flush()
        vars(self._out).clear()
        vars(self._out).update(self._before)
        if self.failure is not None:  # Python flushes once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())

    def _checked(self, call: Callable[P, R]) -> Callable[P, R]:
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return call(*args, **kwargs)
            except OSError as error:
                failure = OutputError(error.errno, error.strerror)
                self.failure = self.failure or failure
                raise failure from error

        return checked

    def end(self, program: str) -> int:
        """The exit code, and the sentence unless the reader has merely had enough, as `head` has."""
        if self.failure is None or self.failure.errno == errno.EPIPE:
            return 0
        print(f"{program}: standard output cannot be written: {self.failure.strerror}", file=sys.stderr)
        return OUTPUT_CODE


def _is_of_output(error: BaseException) -> bool:
    """Whether the program ended well, or through standard output; a framework may turn that error into its own."""
    if isinstance(error, SystemExit) and not error.code:
        return True
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OutputError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


class Parser(argparse.ArgumentParser):
    """One sentence for a wrong word, and the nearest one that is known. A program's subclass has its `program`."""

    program: ClassVar[str]

    def parse_args(self, args: Sequence[str] | None = None, namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """The options, or the end with a sentence; `--all_namespaces` is `--all-namespaces`."""
        words = [_dashed(word) for word in (sys.argv[1:] if args is None else args)]
        misspelt = _misspelt(self, words)
        if misspelt:  # argparse would first miss the argument that is meant
            self.error(_unknown(misspelt, _options(self, words)))
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


def _misspelt(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """The first long option that neither the parser nor the named command has; empty where the command is not known."""
    if not _has_commands(parser, words):
        return ""
    options = _options(parser, words)
    before = words[: words.index("--")] if "--" in words else words
    names = (word.partition("=")[0] for word in before if word.startswith("--") and " " not in word)
    return next((name for name in names if not any(option.startswith(name) for option in options)), "")


def _has_commands(parser: argparse.ArgumentParser, words: Sequence[str]) -> bool:
    """Whether the words name a command wherever the parser needs one."""
    groups = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    chosen = [[choices[name] for name in {*words} & {*choices}] for choices in groups]
    return all(one and all(_has_commands(command, words) for command in one) for one in chosen)


def _unknown(word: str, options: Sequence[str]) -> str:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return f'"{name}" belongs to no option'
    near = get_close_matches(name, options, 1)
    return f"there is no option {name}{f'; write {near[0]}' if near else ''}"
