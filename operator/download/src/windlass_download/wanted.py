"""What is to be downloaded, and what a hub says that it has: values, with every suspicion towards the hub.

Pure: no socket, no file. A hub, or whoever sits in front of it, may send any bytes; what passes here is safe to use as
a path below a directory of ours.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from windlass_download.errors import UserError

OURS = ".windlass-"  # no file of a hub may begin like this: our marker and staging directory do
SHA256, GIT_SHA1, NO_DIGEST = "sha256", "git-sha1", ""
HEX_LENGTHS = {SHA256: 64, GIT_SHA1: 40}
FILES_MAX = 20_000  # ten times the largest models' shards
BYTES_MAX = 1 << 43  # 8 TiB: two trillion parameters in float32
PATH_MAX, NAME_MAX, DEPTH_MAX = 1024, 200, 16  # bytes, bytes, folders
NAMES_SHOWN = 10
MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One model of one hub, and which of its files."""

    hub: str
    name: str
    revision: str  # a branch, a tag or a commit; never empty
    endpoint: str  # base URL without a slash at its end
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """How messages name it."""
        return f"{self.name} at revision {self.revision} on {self.endpoint}"


@dataclass(frozen=True, slots=True, order=True)
class RemoteFile:
    """One file as the hub lists it; `digest` is empty when the hub tells none."""

    path: str
    size: int
    algorithm: str = NO_DIGEST
    digest: str = ""

    @property
    def key(self) -> str:
        """A name for the file with exactly this content, usable as a file name."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of one commit; `commit` is empty when the hub tells none."""

    commit: str
    files: tuple[RemoteFile, ...] = field(default=())

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def key(self) -> str:
        """A name for exactly these files. A commit that changes none of them is the same work."""
        unnamed = self.commit if any(not file.digest for file in self.files) else ""
        text = json.dumps([unnamed, [asdict(file) for file in sorted(self.files)]])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def listing(commit: str, rows: Iterable[RemoteFile], wanted: Wanted) -> Listing:
    """The wanted files among the hub's rows; UserError when a row is unusable or nothing remains."""
    files = _checked_all(rows)
    chosen = tuple(file for file in files if _chosen(file.path, wanted.include, wanted.exclude))
    if not chosen:
        shown = ", ".join(printable(file.path, 60) for file in files[:NAMES_SHOWN]) or "nothing"
        raise UserError(
            "DownloadNotFound",
            f"no file of {wanted.words} is left by include and exclude; it has: {shown}; correct spec.model.download",
        )
    _check_together(chosen)
    return Listing(commit, chosen)


def _checked_all(rows: Iterable[RemoteFile]) -> list[RemoteFile]:
    """The rows, sorted; UserError before there are more of them than a model has."""
    files: list[RemoteFile] = []
    for row in rows:
        if len(files) == FILES_MAX:
            raise broken(f"the hub lists more than {FILES_MAX} files")
        files.append(_checked(row))
    return sorted(files)


def digest_of(value: object, algorithm: str) -> tuple[str, str]:
    """(algorithm, digest) when the value is a digest of that kind, else no digest."""
    text = value.lower() if isinstance(value, str) else ""
    if len(text) == HEX_LENGTHS[algorithm] and re.fullmatch("[0-9a-f]+", text):
        return algorithm, text
    return NO_DIGEST, ""


def from_rows(rows: object) -> tuple[RemoteFile, ...]:
    """Files back from what `asdict` made of them; empty when the rows are not ours."""
    try:
        return tuple(
            _checked(RemoteFile(str(row["path"]), int(row["size"]), str(row["algorithm"]), str(row["digest"])))
            for row in (rows if isinstance(rows, Sequence) else ())
        )
    except (KeyError, TypeError, ValueError, OverflowError, UserError):
        return ()


def text_of(row: Mapping[str, Any], key: str) -> str:
    """A string of a hub's row; empty when it is none."""
    value = row.get(key)
    return value if isinstance(value, str) else ""


def size_of(value: object) -> int:
    """A size as the hub tells it; -1, which no check lets pass, when it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def broken(what: str) -> UserError:
    """The hub's answer cannot be used."""
    return UserError("HubAnswerBroken", f"{what}; check spec.model.download.endpoint")


def printable(text: str, length: int = 120) -> str:
    """A stranger's words on one ASCII line."""
    line = "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
    return line if len(line) <= length else line[: length - 3] + "..."


def _chosen(path: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    name = path.rsplit("/", 1)[-1]
    if name in (".gitattributes", ".gitignore"):
        return False
    return (not include or _matches(path, include)) and not _matches(path, exclude)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """As both hubs' own clients match: over the whole path, `*` takes slashes too, `dir/` means all in it."""
    return any(fnmatch.fnmatchcase(path, one + "*" if one.endswith("/") else one) for one in patterns)


def _checked(file: RemoteFile) -> RemoteFile:
    """The row itself; UserError when it could not be stored safely."""
    parts = file.path.split("/")
    unsafe = (
        len(file.path.encode(errors="replace")) > PATH_MAX
        or len(parts) > DEPTH_MAX
        or any(part in ("", ".", "..") or len(part.encode(errors="replace")) > NAME_MAX for part in parts)
        or any(part.startswith("-") or part.casefold().startswith(OURS) for part in parts)
        or not file.path.isprintable()
        or "\\" in file.path
    )
    if unsafe:
        raise broken(f'the hub lists a file named "{printable(file.path)}", which cannot be stored safely')
    if not 0 <= file.size <= BYTES_MAX:
        raise broken(f"the hub gives no usable size for {printable(file.path)}")
    return file


def _check_together(files: Sequence[RemoteFile]) -> None:
    """UserError when the files cannot lie beside each other on every volume, or are more than any model is."""
    if sum(file.size for file in files) > BYTES_MAX:
        raise broken(f"the hub lists more than {BYTES_MAX >> 40} TiB")
    seen: dict[str, str] = {}  # spelling by folded name; a folder's ends with a slash
    for file in files:
        parts = file.path.split("/")
        for folder in ("/".join(parts[:depth]) + "/" for depth in range(1, len(parts))):
            if seen.setdefault(_folded(folder), folder) != folder:
                raise _twice(seen[_folded(folder)], folder)
        if (known := seen.get(_folded(file.path))) is not None:
            raise _twice(known, file.path)
        seen[_folded(file.path)] = file.path


def _folded(path: str) -> str:
    """The name as a volume keeps it that tells neither letter case nor Unicode forms apart."""
    return unicodedata.normalize("NFC", path.rstrip("/")).casefold()


def _twice(one: str, other: str) -> UserError:
    names = " and ".join(f'"{printable(name)}"' for name in (one, other))
    return broken(f"the hub lists two files of one name, {names}; exclude one of them in spec.model.download")
