"""Opens and parses the files of a model directory within bounds: regular files only, bytes, values and nesting limited.

A directory may hold anything: a named pipe that nobody writes to, a header of 100 MB, an index nested a million times.
`checkpoint.py`, `weights.py` and `source.py` call it, and the server where it reads a mounted directory; they give the
sentences around what is raised here.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

MIB = 1024**2
CONFIG_BYTES_MAX = 8 * MIB  # the largest published ones are near 1 MiB: lists of modules that stay unquantized
INDEX_BYTES_MAX = 64 * MIB  # the largest published ones are near 15 MiB
HEADER_BYTES_MAX = 64 * MIB  # of one safetensors file
NAMES_BYTES_MAX = 512 * MIB  # of headers in one look at a directory; the largest published models have near 150
VALUES_MAX = 1_000_000  # of one document: about 300 bytes of memory each, within the inspect Job's 512 MiB
KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a directory"),
)


@dataclass(slots=True)
class Budget:
    """Bytes of headers that one look at many files may still read."""

    left: int = NAMES_BYTES_MAX

    def take(self, size: int) -> None:
        """ValueError where these are too many."""
        self.left -= size
        if self.left < 0:
            raise ValueError(f"the headers of all files have more than {NAMES_BYTES_MAX // MIB} MiB")


class NotRegularError(OSError):
    """A pipe, a socket, a device or a directory where a file is expected; `strerror` says which."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """The file, open for reading; NotRegularError when it is none. Never waits for a writer, as a pipe would."""
    kind = _kind(path.stat())  # before it is opened: to open a device may do something
    if kind:
        raise NotRegularError(path, kind)
    # Without waiting: a pipe may have taken the file's place meanwhile.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if kind := _kind(os.fstat(file.fileno())):
            raise NotRegularError(path, kind)
        yield file


def read(path: Path, most: int) -> bytes:
    """The whole file; ValueError when it has more bytes than that."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"it is larger than {most // MIB} MiB")
        return file.read(size)


def parse(raw: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value; ValueError when it is none, holds too many values, or is nested too deeply."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > VALUES_MAX:
        raise ValueError(f"it holds more than {VALUES_MAX:,} values")
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def waits(path: Path) -> str:
    """What the file is when whoever opens it may wait for ever, as `a named pipe`; empty for all others."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return "" if stat.S_ISDIR(status.st_mode) else _kind(status)


def _kind(status: os.stat_result) -> str:
    """What the file is; empty for a regular one."""
    if stat.S_ISREG(status.st_mode):
        return ""
    return next((words for test, words in KINDS if test(status.st_mode)), "no regular file")


def without_config(directory: Path) -> str:
    """Remedy for a directory that has Mistral's params.json and no config.json; empty for any other."""
    if not (directory / "params.json").is_file():
        return ""
    return "params.json, Mistral's form, is not read: put the model's config.json beside it"
