"""What is left of a directory when the power goes: built from the journal that `disk.c` wrote.

A file's bytes are safe as of its last sync, its name as of the last sync of its directory. What came after may be lost
as a whole, or in part and in any order: `Loss.ALL` and `Loss.SOME`.
"""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

HEAD = struct.Struct("<cHQI")
SECTOR = 512
Operation = tuple[str, str, int, bytes]


class Loss(Enum):
    """How much of what was not synced is lost."""

    ALL = "all of it"
    SOME = "some of it"


def build_recorder(folder: Path) -> Path:
    """Compile the recorder; its shared library."""
    library = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def recording(library: Path, root: Path, journal: Path) -> dict[str, str]:
    """The environment of a process whose changes under `root` are to be recorded."""
    return {**os.environ, "LD_PRELOAD": str(library), "DISK_ROOT": str(root), "DISK_JOURNAL": str(journal)}


def operations(journal: Path, root: Path) -> Iterator[Operation]:
    """(operation, file name, offset, data) in order, no name for `root` itself; a cut-off record ends them."""
    data, at = journal.read_bytes(), 0
    while at + HEAD.size <= len(data):
        kind, named, offset, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        path, content = data[at : at + named], data[at + named : at + named + length]
        if len(path) + len(content) < named + length:
            return
        at += named + length
        yield kind.decode(), str(Path(path.decode()).relative_to(root)).removeprefix("."), offset, content


@dataclass
class _File:
    """One file: safe bytes, what was done to it since, and how it looks to the living."""

    safe: bytes = b""
    since: list[Operation] = field(default_factory=list)
    now: bytearray = field(default_factory=bytearray)


class Disk:
    """The files of one flat directory."""

    def __init__(self, before: Path) -> None:
        """Begin with what is there: that much is safe."""
        self._files = {path.name: _File(path.read_bytes()) for path in before.iterdir() if "-shm" not in path.name}
        for file in self._files.values():
            file.now = bytearray(file.safe)
        self._safe_files = dict(self._files)
        self.unsafe = 0

    def apply(self, operation: Operation) -> None:
        """Follow one operation."""
        kind, name, _, _ = operation
        if kind == "s" and not name:
            self._safe_files = dict(self._files)
        elif kind == "u":
            self._files.pop(name, None)
        else:
            file = self._files.setdefault(name, _File())
            if kind == "s":
                file.safe, file.since = bytes(file.now), []
            else:
                _change(file.now, operation)
                file.since.append(operation)

    def left(self, loss: Loss, chance: random.Random) -> dict[str, bytes]:
        """File names and contents after the power cut; counts what was not safe in `unsafe`."""
        self.unsafe = sum(len(file.since) for file in self._files.values())
        files = dict(self._safe_files)
        if loss is Loss.SOME:
            files |= {name: file for name, file in self._files.items() if chance.random() < 0.5}
        return {name: _content(file, loss, chance) for name, file in files.items()}


def _content(file: _File, loss: Loss, chance: random.Random) -> bytes:
    content = bytearray(file.safe)
    if loss is Loss.SOME:
        for kind, name, offset, data in file.since:
            if chance.random() < 0.5:
                cut = chance.randrange(0, len(data) + 1, SECTOR) if chance.random() < 0.3 else len(data)
                _change(content, (kind, name, offset, data[:cut]))
    return bytes(content)


def _change(content: bytearray, operation: Operation) -> None:
    kind, _, offset, data = operation
    if kind == "t" and offset < len(content):
        del content[offset:]
    elif len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if kind == "w":
        content[offset : offset + len(data)] = data


def cut_power(data: Path, before: Path, journal: Path, loss: Loss, chance: random.Random) -> int:
    """Leave in `data` what is left; `before` is a copy of it of the time when the recording began.

    Returns how many operations were not safe at the time of the cut.
    """
    disk = Disk(before)
    for operation in operations(journal, data):
        disk.apply(operation)
    shutil.rmtree(data)
    data.mkdir()
    for name, content in disk.left(loss, chance).items():
        (data / name).write_bytes(content)
    return disk.unsafe
