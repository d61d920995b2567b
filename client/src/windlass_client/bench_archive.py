"""The results of a benchmark's Job, as its log brings them: collects the lines, checks them, writes the folder.

The log is foreign text: sizes, names and the sum are checked before anything is written.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from windlass_base.kube.errors import UnreadableError

MARK = "windlass-bench-archive "
SUM = "sha256="
PACKED_MAX = 16 << 20
"""Characters of base64."""
UNPACKED_MAX = 128 << 20
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
            self.size += len(piece)
            if self.size > PACKED_MAX:
                raise UnreadableError(f"the archive in the Job's log is larger than {PACKED_MAX} characters")
            self.pieces.append(piece)
        return True

    @property
    def is_whole(self) -> bool:
        """Whether its last line has come."""
        return bool(self.digest)

    def files(self) -> dict[str, bytes]:
        """Content by name; UnreadableError when the log lost or changed a part."""
        try:
            packed = base64.b64decode("".join(self.pieces), validate=True)
        except (binascii.Error, ValueError):
            raise UnreadableError("the archive in the Job's log is no base64") from None
        if hashlib.sha256(packed).hexdigest() != self.digest:
            raise UnreadableError("the archive in the Job's log is not whole: the kubelet may have cut the log")
        try:
            with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
                return dict(_members(tar))
        except (tarfile.TarError, OSError, EOFError) as error:
            raise UnreadableError(f"the archive in the Job's log cannot be read: {error}") from None


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    left = UNPACKED_MAX
    for number, member in enumerate(tar):
        path = PurePosixPath(member.name)
        if not member.isfile() or path.is_absolute() or ".." in path.parts or "\0" in member.name:
            raise UnreadableError("the archive in the Job's log holds something else than plain files")
        left -= member.size
        if left < 0 or number >= FILES_MAX:
            raise UnreadableError("the archive in the Job's log unpacks to more than is taken")
        file = tar.extractfile(member)
        yield str(path), file.read() if file else b""


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Into a new folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
