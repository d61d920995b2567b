"""The results of a benchmark's Job, as its log brings them: collects the lines, checks them, writes the folder.

The log is foreign text: sizes, names and the sum are checked before anything is written.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from windlass_base.kube.errors import UnreadableError

MARK = "windlass-bench-archive "
SUM = "sha256="
PACKED_MAX = 16 << 20
"""Characters of base64."""
UNPACKED_MAX = 128 << 20
"""Bytes of the archive, heads of its files included."""
FILES_MAX = 10_000


@dataclass(slots=True)
class Archive:
    """The lines so far."""

    pieces: list[str] = field(default_factory=list)
    size: int = 0
    digest: str = ""

    def take(self, line: str) -> bool:
        """Whether the line is a part of the archive, and not for people."""
        if not line.startswith(MARK):
            return False
        piece = line[len(MARK) :].strip()
        if piece.startswith(SUM):
            self.digest = piece.removeprefix(SUM)
        else:
            self.size += len(piece) or 1
            if self.size > PACKED_MAX:
                raise UnreadableError(f"the archive in the Job's log is larger than {PACKED_MAX} characters")
            self.pieces.append(piece)
        return True

    @property
    def is_whole(self) -> bool:
        """Whether its last line has come."""
        return bool(self.digest)

    def files(
        self, names: Collection[str] = (), each_max: int = UNPACKED_MAX, total_max: int = UNPACKED_MAX
    ) -> dict[str, bytes]:
        """Content by name; UnreadableError when the log lost or changed a part.

        With `names` only those are kept. No more than `total_max` bytes are unpacked, whatever the archive says.
        """
        try:
            packed = base64.b64decode("".join(self.pieces), validate=True)
        except (binascii.Error, ValueError):
            raise UnreadableError("the archive in the Job's log is no base64") from None
        if hashlib.sha256(packed).hexdigest() != self.digest:
            raise UnreadableError("the archive in the Job's log is not whole: the kubelet may have cut the log")
        try:
            with tarfile.open(fileobj=_Unpacked(packed, total_max), mode="r|") as tar:
                return dict(_members(tar, names, each_max))
        except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, RecursionError) as error:
            raise UnreadableError(f"the archive in the Job's log cannot be read: {error}") from None


class _Unpacked(io.RawIOBase):
    """The bytes of a gzip file one after the other, and never more than `most`."""

    def __init__(self, packed: bytes, most: int) -> None:
        self._file = gzip.GzipFile(fileobj=io.BytesIO(packed))
        self._left = most

    def read(self, size: int = -1) -> bytes:
        """The next bytes; UnreadableError beyond the bound, as a few packed bytes may stand for gigabytes."""
        data = self._file.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise UnreadableError("the archive in the Job's log unpacks to more than is taken")
        return data


def _members(tar: tarfile.TarFile, names: Collection[str], each_max: int) -> Iterator[tuple[str, bytes]]:
    for number, member in enumerate(tar):
        path = PurePosixPath(member.name)
        if not member.isreg() or member.issparse() or path.is_absolute() or ".." in path.parts or "\0" in member.name:
            raise UnreadableError("the archive in the Job's log holds something else than plain files")
        if number >= FILES_MAX:
            raise UnreadableError(f"the archive in the Job's log holds more than {FILES_MAX} files")
        if names and str(path) not in names:
            continue
        if member.size > each_max:
            raise UnreadableError(
                f"{path} in the Job's log has {member.size} bytes, more than the {each_max} that are read"
            )
        file = tar.extractfile(member)
        yield str(path), file.read() if file else b""


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Into a new folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
