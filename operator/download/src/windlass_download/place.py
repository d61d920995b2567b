"""Where things lie on the volume: the target, the staging directory beside it, and the marker of a whole model.

TARGET/.windlass-complete.json          what lies here, and from where
TARGET's parent/.windlass-download-D/   D is made of the target's path; in a fixed target it lies inside
    claim-N                             who downloads (`claim`)
    tree-KEY/, tree-KEY.json            verified files of one listing, never written to again, and that listing
    work-OWNER/                         unfinished files of one process (`partfile`)
    publishing.json, old/               a publication under way (`publish`)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_download.errors import UserError
from windlass_download.partfile import sync_folder
from windlass_download.wanted import OURS, Listing, RemoteFile, Wanted, from_rows

MARKER = f"{OURS}complete.json"
STAGING = f"{OURS}download-"
MARKER_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a download."""

    target: Path
    staging: Path
    fixed: bool  # it cannot be renamed: a volume's root, or a directory in one that we may not write into

    def draft(self, owner: str) -> Path:
        """Where one process writes what is then renamed into its place."""
        return self.staging / f"draft-{owner}"

    def tree(self, key: str) -> Path:
        """Where verified files of one listing lie."""
        return self.staging / f"tree-{key}"

    def work(self, number: int, owner: str) -> Path:
        """Where one process keeps what it has not finished; `number` is that of its claim."""
        return self.staging / f"work-{number}-{owner}"


@dataclass(frozen=True, slots=True)
class Marker:
    """What lies in a target, as the download that completed it wrote it down."""

    wanted: Wanted
    listing: Listing

    def text(self) -> str:
        """The marker as it stands in its file."""
        files = [asdict(file) for file in self.listing.files]
        return json.dumps({"version": 1, **asdict(self.wanted), "commit": self.listing.commit, "files": files})


def place_of(root: Path, path: str) -> Place:
    """The target below the volume's root; UserError when it would lie outside."""
    if not root.is_dir():
        raise UserError("PathNotFound", f'the volume is not there: "{root}" is no directory')
    parts = [part for part in PurePosixPath(path).parts if part != "/"]
    base = root.resolve()
    target = base.joinpath(*parts).resolve()
    if ".." in parts or not target.is_relative_to(base):
        raise UserError("PathEscapes", f'the path "{path}" leads out of the volume; name the directory itself')
    fixed = target == base or (target.is_dir() and not os.access(target.parent, os.W_OK))
    name = hashlib.sha256(str(target.relative_to(base)).encode()).hexdigest()[:12]
    return Place(target, (target if fixed else target.parent) / f"{STAGING}{name}", fixed)


def read_marker(target: Path) -> Marker | None:
    """The marker of a target; None when there is none that is ours."""
    data = read_json(target / MARKER)
    files = from_rows(data.get("files"))
    words = [data.get(key) for key in ("hub", "name", "revision", "endpoint", "commit")]
    if data.get("version") != 1 or not files or not all(isinstance(word, str) for word in words):
        return None
    hub, name, revision, endpoint, commit = (str(word) for word in words)
    patterns = [_words(data.get(key)) for key in ("include", "exclude")]
    return Marker(Wanted(hub, name, revision, endpoint, *patterns), Listing(commit, files))


def _words(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def is_complete(target: Path, marker: Marker) -> bool:
    """Whether every file of the marker is there with its size."""
    return all(size_at(target / file.path) == file.size for file in marker.listing.files)


def size_at(path: Path) -> int:
    """The size of a regular file; -1 when there is none."""
    try:
        return path.stat().st_size if path.is_file() and not path.is_symlink() else -1
    except OSError:
        return -1


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object of ours; empty when it is not there or not ours."""
    try:
        with path.open("rb") as file:
            data = json_of(file.read(MARKER_MAX))
    except (OSError, UnusableJsonError):
        return {}
    return data if isinstance(data, Mapping) else {}


def write_whole(path: Path, text: str, draft: Path) -> None:
    """Write a file so that it is there whole or not at all, also after a crash of the machine."""
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    sync_folder(path.parent)


def rows_of(files: tuple[RemoteFile, ...]) -> list[dict[str, Any]]:
    """Files as JSON; `from_rows` reads them."""
    return [asdict(file) for file in files]
