"""How the command line reads its words, and what it says of wrong ones: one sentence each, and exit code 2.

`Parser` is argparse with underscores for dashes and the nearest option for a misspelled one. The readers below are the
`type` of an option: a number that is none, or out of range, is named with what to write.
"""

import argparse
import errno
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from windlass_license.errors import InputFileError

PORT_MAX = 65535
COMMAND = re.compile(r"argument COMMAND: invalid choice: '?(?P<said>.*?)'? \(choose from (?P<known>.*)\)")
WHY = {
    errno.ENOENT: "is not there; name a path that is",
    errno.ENOTDIR: "is not there; name a path that is",
    errno.EISDIR: "is a directory; name a file",
    errno.EACCES: "may not be read or written by this user; change its mode or owner",
    errno.EROFS: "is on a read-only file system; name another place",
    errno.ENOSPC: "cannot be written: the disk is full; name another place",
}


class Parser(argparse.ArgumentParser):
    """One sentence on standard error for a wrong command line."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """The options, or exit code 2; `--tls_dir` is `--tls-dir`."""
        words = sys.argv[1:] if args is None else args
        options, unknown = self.parse_known_args([_dashed(word) for word in words], namespace)
        if unknown:
            self.error(_unknown(unknown[0], _options(self, words)))
        return options

    def error(self, message: str) -> NoReturn:
        """Say it, and leave."""
        found = COMMAND.fullmatch(message)
        sentence = _no_command(found) if found else message.removeprefix("argument ").rstrip(".")
        self.exit(2, f"windlass-license: {sentence}; see {self.prog} --help\n")


def _no_command(found: re.Match[str]) -> str:
    known = [word.strip(" '\"") for word in found["known"].split(",")]
    near = get_close_matches(found["said"], known, 1)
    return f"there is no command {found['said']}; write {near[0] if near else 'one of ' + ', '.join(known)}"


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


def whole(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"-?\d{1,15}", text):
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number; write digits, as 5')
    return int(text)


def port(text: str) -> int:
    """A port to listen on."""
    if not 1 <= (number := whole(text)) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"{number} is no port; write a number from 1 to {PORT_MAX}")
    return number


def positive(text: str) -> int:
    """A whole number above 0."""
    if (number := whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is too small; give 1 or more")
    return number


def not_negative(text: str) -> float:
    """A number, 0 included."""
    if not re.fullmatch(r"\d{1,9}(\.\d{0,9})?", text):
        raise argparse.ArgumentTypeError(f'"{text}" is no number from 0 to 999999999; write it as 20 or 0.5')
    return float(text)


def unusable(error: OSError | UnicodeDecodeError, path: object = None) -> InputFileError:
    """What is wrong with a file, in a sentence."""
    if isinstance(error, UnicodeDecodeError):
        return InputFileError(f"{path} holds bytes that are no text; name a text file")
    where = error.filename if path is None else path
    why = WHY.get(error.errno or 0, f"cannot be used: {error.strerror or error}")
    return InputFileError(f"{where} {why}")
