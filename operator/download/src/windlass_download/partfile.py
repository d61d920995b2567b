"""One file on its way: its parts are written where they belong, each noted with a checksum, and hashed in order.

Beside `KEY.part` lies `KEY.journal`: a first line of JSON (`size`, `part`), then a line `NUMBER CRC32` for each
finished part. The journal is not synced before the data is: a part counts after a crash only when its bytes have that
checksum. Whoever takes over copies the good parts into a file of its own, so that a process that is believed dead, and
is not, can never write into a file that was verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from windlass_download.wanted import GIT_SHA1, SHA256, RemoteFile

COPY_BYTES = 1 << 20
PARTS_MAX = 1 << 14  # of one file; a larger file has larger parts
CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a file, `start` to before `end`."""

    number: int
    start: int
    end: int


class PartFile:
    """One file of the staging directory, written by this process alone, from many threads."""

    def __init__(self, folder: Path, remote: RemoteFile, part_bytes: int) -> None:
        self.remote = remote
        self.path = folder / f"{remote.key}.part"
        self.journal = folder / f"{remote.key}.journal"
        part_bytes = max(part_bytes, -(-remote.size // PARTS_MAX))
        count = -(-remote.size // part_bytes)
        ends = [min(remote.size, (number + 1) * part_bytes) for number in range(count)]
        self.parts = tuple(Part(number, number * part_bytes, end) for number, end in enumerate(ends))
        self._part_bytes = part_bytes
        self._done: set[int] = set()
        self._lock = threading.Lock()
        self._hash = hasher(remote)
        self._hashed = 0  # parts
        self._data = -1
        self._notes = -1

    def open(self) -> None:
        """Make the files; a second call does nothing."""
        with self._lock:
            if self._data >= 0:
                return
            self._data = os.open(self.path, CREATE, 0o644)
            self._notes = os.open(self.journal, CREATE | os.O_APPEND | os.O_TRUNC, 0o644)
            os.ftruncate(self._data, self.remote.size)
            os.write(self._notes, _header(self.remote.size, self._part_bytes))

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            for descriptor in (self._data, self._notes):
                if descriptor >= 0:
                    os.close(descriptor)
            self._data = self._notes = -1

    def missing(self) -> tuple[Part, ...]:
        """Parts that are not there yet, in order."""
        with self._lock:
            return tuple(part for part in self.parts if part.number not in self._done)

    def has(self, part: Part) -> bool:
        """Whether the part is there."""
        with self._lock:
            return part.number in self._done

    def write(self, data: bytes, offset: int) -> None:
        """Write bytes where they belong."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._data, view, offset)
            view, offset = view[written:], offset + written

    def finish(self, part: Part, checksum: int) -> None:
        """Note that a part is whole."""
        with self._lock:
            if part.number not in self._done:
                os.write(self._notes, b"%d %08x\n" % (part.number, checksum))
                self._done.add(part.number)
                self._hash_on()

    def is_right(self) -> bool:
        """Whether the bytes on the disk have the digest that the hub tells; size alone where it tells none."""
        with self._lock:
            self._hash_on()
            if self._hashed < len(self.parts):
                return False
            return not self.remote.digest or self._hash.hexdigest() == self.remote.digest

    def start_over(self) -> None:
        """Forget all parts."""
        self.close()
        with self._lock:
            self.path.unlink(missing_ok=True)
            self._done.clear()
            self._hash, self._hashed = hasher(self.remote), 0
        self.open()

    def move_to(self, place: Path) -> None:
        """Put the verified file into its place, so that it is there also after a crash of the machine."""
        os.fsync(self._data)
        self.close()
        make_folder(place.parent)
        self.path.rename(place)
        sync_folder(place.parent)
        self.journal.unlink(missing_ok=True)

    def adopt(self, folder: Path) -> int:
        """Copy the good parts that another process left in `folder`; how many bytes that were."""
        source = folder / self.path.name
        notes = _noted(folder / self.journal.name, self.remote.size, self._part_bytes)
        if not notes or source.is_symlink() or not source.is_file():
            return 0
        self.open()
        gained = 0
        with source.open("rb") as data:
            for part in self.missing():
                if part.number in notes and self._copied(data.fileno(), part, notes[part.number]):
                    self.finish(part, notes[part.number])
                    gained += part.end - part.start
        return gained

    def forget(self, folder: Path) -> None:
        """Delete what another process left of this file."""
        (folder / self.path.name).unlink(missing_ok=True)
        (folder / self.journal.name).unlink(missing_ok=True)

    def _copied(self, source: int, part: Part, checksum: int) -> bool:
        found = 0
        for offset in range(part.start, part.end, COPY_BYTES):
            data = os.pread(source, min(COPY_BYTES, part.end - offset), offset)
            if not data:
                return False
            found = zlib.crc32(data, found)
            self.write(data, offset)
        return found == checksum

    def _hash_on(self) -> None:
        """Hash the parts that follow the hashed ones, as they are on the disk; the lock is held."""
        while self._hashed < len(self.parts) and self._hashed in self._done:
            part = self.parts[self._hashed]
            for offset in range(part.start, part.end, COPY_BYTES):
                self._hash.update(os.pread(self._data, min(COPY_BYTES, part.end - offset), offset))
            self._hashed += 1


def hasher(remote: RemoteFile) -> hashlib._Hash:
    """A hash of the kind that the hub tells; git's begins with a header."""
    if remote.algorithm == GIT_SHA1:
        return hashlib.sha1(b"blob %d\0" % remote.size, usedforsecurity=False)
    return hashlib.new(SHA256)


def has_content(place: Path, remote: RemoteFile) -> bool:
    """Whether a file on the disk is the hub's, by size and by digest."""
    if place.is_symlink() or not place.is_file() or place.stat().st_size != remote.size:
        return False
    digest = hasher(remote)
    with place.open("rb") as data:
        for chunk in _chunks(data.fileno()):
            digest.update(chunk)
    return not remote.digest or digest.hexdigest() == remote.digest


def make_folder(folder: Path, parents: bool = True) -> None:
    """Make a directory unless it is there; FileNotFoundError when another process removes it meanwhile.

    `Path.mkdir` says then that it exists: it asks twice, and the directory goes in between.
    """
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except FileExistsError:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise


def sync_folder(folder: Path) -> None:
    """Make the names in a directory last; file systems that cannot are left to themselves."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _chunks(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, COPY_BYTES):
        yield chunk


def _header(size: int, part_bytes: int) -> bytes:
    return json.dumps({"size": size, "part": part_bytes}).encode() + b"\n"


def _noted(journal: Path, size: int, part_bytes: int) -> dict[int, int]:
    """Number and checksum of the parts that a journal calls finished; a line that was cut off counts for nothing."""
    try:
        lines = journal.read_bytes().split(b"\n")
    except OSError:
        return {}
    if lines[0] + b"\n" != _header(size, part_bytes):
        return {}
    rows = [line.split(b" ") for line in lines[1:-1]]
    try:
        return {int(row[0]): int(row[1], 16) for row in rows if len(row) == 2 and len(row[1]) == 8}
    except ValueError:
        return {}
