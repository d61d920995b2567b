"""How the command line reads its words, and what it says of wrong ones: one sentence each, and exit code 2.

`Parser` is argparse as all our programs have it. The readers below are the
`type` of an option: a number that is none, or out of range, is named with what to write.
"""

import argparse
import errno
import re
from pathlib import Path

from windlass_base import command_line

from windlass_license.errors import InputFileError

PORT_MAX = 65535
WHY = {
    errno.ENOENT: "is not there; name a path that is",
    errno.ENOTDIR: "is not there; name a path that is",
    errno.EISDIR: "is a directory; name a file",
    errno.EACCES: "may not be read or written by this user; change its mode or owner",
    errno.EROFS: "is on a read-only file system; name another place",
    errno.ENOSPC: "cannot be written: the disk is full; name another place",
}
WHY_NOT_MADE = {
    errno.ENOENT: "its file system takes no new directory",
    errno.ENOTDIR: "a part of it is a file",
    errno.EEXIST: "it is a file",
    errno.EACCES: "this user may not write there",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
}
"""Of a directory with its parents, so that a missing parent is no reason."""


class Parser(command_line.Parser):
    """Of each of the server's commands."""

    program = "windlass-license"


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


def make_directory(path: Path, option: str) -> None:
    """Make a directory with its parents, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = WHY_NOT_MADE.get(error.errno or 0, error.strerror or str(error))
        raise InputFileError(f"{option} {path} cannot be made: {why}; name another directory") from error


def unusable(error: OSError | UnicodeDecodeError, path: object = None) -> InputFileError:
    """What is wrong with a file, in a sentence."""
    if isinstance(error, UnicodeDecodeError):
        return InputFileError(f"{path} holds bytes that are no text; name a text file")
    where = error.filename if path is None else path
    why = WHY.get(error.errno or 0, f"cannot be used: {error.strerror or error}")
    return InputFileError(f"{where} {why}")


def keys_option(parser: argparse.ArgumentParser, required: bool) -> None:
    """--public-key, of every command that verifies licenses."""
    key_help = "PEM file with one or more public keys, or a directory of such files"
    parser.add_argument(
        "--public-key",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        required=required,
        metavar="PATH",
        help=key_help,
    )
