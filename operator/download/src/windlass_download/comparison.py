"""What of a listing is there already: in the target, in the staging directory, in what dead processes left behind."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from windlass_download.errors import UserError
from windlass_download.partfile import has_content, make_folder
from windlass_download.place import Marker, Place, read_json, read_marker, rows_of, size_at, write_whole
from windlass_download.wanted import Listing, RemoteFile, Wanted, from_rows

WORK = re.compile(r"work-(\d{1,9})-\w+")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is to be done to the target."""

    listing: Listing
    old: Marker | None
    kept: tuple[RemoteFile, ...]  # right in the target
    missing: tuple[RemoteFile, ...]  # to be in the tree before it is published
    gone: tuple[str, ...]  # ours, of an earlier revision, and in this one no more
    ours: frozenset[str]  # all paths that a download put into the target

    @property
    def changes(self) -> bool:
        """Whether any file of the target changes."""
        return bool(self.missing or self.gone)


def compare(place: Place, wanted: Wanted, listing: Listing, verify: bool) -> Comparison:
    """Compare; UserError when the target holds another model, or a file that no download put there."""
    old = read_marker(place.target)
    if old is not None and (old.wanted.hub, old.wanted.name) != (wanted.hub, wanted.name):
        raise UserError(
            "DownloadConflict",
            f"the directory holds {old.wanted.name} from {old.wanted.hub}, not {wanted.name} from {wanted.hub}; "
            "give spec.model.source another path, or delete the directory",
        )
    begun = from_rows(read_json(place.staging / "publishing.json").get("files"))
    known = {file.path: file for file in (*(old.listing.files if old else ()), *begun)}
    trusted = set() if verify else set(old.listing.files if old else ()) | set(begun)
    kept: list[RemoteFile] = []
    missing: list[RemoteFile] = []
    for file in listing.files:
        there = _is_there(place.target, file, file in trusted, file.path in known)
        (kept if there else missing).append(file)
    _check_folders(place.target, missing, {*known, *(file.path for file in kept)})
    listed = {file.path for file in listing.files}
    old_paths = (path for path in sorted(known) if path not in listed and _is_inside(place.target, path))
    gone = tuple(path for path in old_paths if size_at(place.target / path) >= 0)
    return Comparison(listing, old, tuple(kept), tuple(missing), gone, frozenset(known))


def _is_there(target: Path, file: RemoteFile, trusted: bool, ours: bool) -> bool:
    path = target / file.path
    if path.is_symlink() or not _is_inside(target, file.path):
        raise _conflict(file, "is or lies behind a link")
    if not path.exists():
        return False
    if (trusted and size_at(path) == file.size) or has_content(path, file):
        return True
    if not ours:
        raise _conflict(file, "is there with other content")
    return False


def _check_folders(target: Path, missing: Iterable[RemoteFile], ours: Iterable[str]) -> None:
    """UserError when a file would go among somebody else's: at a volume's root, folders are neighbours' models."""
    made = {folder for path in ours for folder in _folders_of(path)}
    for file in missing:
        for folder in _folders_of(file.path):
            if folder not in made and (target / folder).is_dir() and any((target / folder).iterdir()):
                raise _conflict(file, "belongs into a directory that has other files")


def _folders_of(path: str) -> Iterable[str]:
    return (str(folder) for folder in PurePosixPath(path).parents if folder.name)


def _is_inside(target: Path, path: str) -> bool:
    return (target / path).parent.resolve().is_relative_to(target)


def _conflict(file: RemoteFile, what: str) -> UserError:
    return UserError(
        "DownloadConflict",
        f"{file.path} {what}, and no download put it there; "
        "move it away, or give spec.model.source a path of the model's own",
    )


def gather(place: Place, seen: Comparison, owner: str) -> tuple[RemoteFile, ...]:
    """Bring verified files of earlier listings into this one's tree; what is still to be fetched."""
    tree = place.tree(seen.listing.key)
    make_folder(tree)
    write_whole(tree.with_suffix(".json"), json.dumps({"files": rows_of(seen.listing.files)}), place.draft(owner))
    for other in _folders(place.staging, "tree-"):
        if other != tree:
            _move_same(other, tree, seen.missing)
            shutil.rmtree(other, ignore_errors=True)
            other.with_suffix(".json").unlink(missing_ok=True)
    return tuple(file for file in seen.missing if size_at(tree / file.path) != file.size)


def _move_same(other: Path, tree: Path, files: Iterable[RemoteFile]) -> None:
    """Whatever lies in a tree was verified, so equal size and digest are equal content."""
    verified = set(from_rows(read_json(other.with_suffix(".json")).get("files")))
    for file in files:
        found = other / file.path
        if file.digest and file in verified and size_at(found) == file.size and size_at(tree / file.path) < 0:
            make_folder((tree / file.path).parent)
            found.rename(tree / file.path)


def left_work(place: Place, number: int) -> tuple[Path, ...]:
    """The working directories of earlier claims; one of our own number may belong to somebody alive."""
    names = [(folder, WORK.fullmatch(folder.name)) for folder in _folders(place.staging, "work-")]
    return tuple(folder for folder, match in names if match and int(match[1]) < number)


def _folders(staging: Path, prefix: str) -> list[Path]:
    return sorted(entry for entry in staging.glob(f"{prefix}*") if entry.is_dir() and not entry.is_symlink())
