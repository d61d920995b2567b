"""Makes a downloaded model visible: whole or not at all, whatever happens in between.

Three ways, by what is there (ADR 18):
- nothing, or an empty directory: the tree is renamed into the target;
- an earlier revision: a new tree, which shares what did not change by hard links, takes the target's place;
- a volume's root, a mount point, or files of somebody else: the new files are renamed into the target one by one, and
  config.json, without which nothing is a model, is taken away first and comes last.

Each step can be done again, by this process or the next one.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from windlass_download.comparison import Comparison
from windlass_download.errors import Retry
from windlass_download.partfile import make_folder, sync_folder
from windlass_download.place import (
    MARKER,
    Marker,
    Place,
    is_complete,
    read_json,
    read_marker,
    rows_of,
    size_at,
    write_whole,
)
from windlass_download.wanted import Wanted

GATE = "config.json"
OLD = "old"
RECORD = "publishing.json"


class NotWhole(Retry):
    """A file that should be there is not: another process is at work here too; look again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is gone from the staging directory", 0)


def publish(place: Place, wanted: Wanted, seen: Comparison, owner: str) -> None:
    """Bring the tree's files into the target, and the marker with them."""
    marker = Marker(wanted, seen.listing)
    tree = place.tree(seen.listing.key)
    if not seen.changes and place.target.is_dir():
        write_whole(place.target / MARKER, marker.text(), place.draft(owner))
        return
    for file in seen.missing:
        if size_at(tree / file.path) != file.size:
            raise NotWhole(file.path)
    record = {"files": rows_of(seen.listing.files), "tree": tree.name}
    write_whole(place.staging / RECORD, json.dumps(record), place.draft(owner))
    try:
        if not (_as_a_whole(place, seen, tree, marker, owner) or _by_swap(place, seen, tree, marker, owner)):
            _one_by_one(place, seen, tree, marker, owner)
    except FileNotFoundError as error:
        raise NotWhole(Path(error.filename or tree).name) from error


def _as_a_whole(place: Place, seen: Comparison, tree: Path, marker: Marker, owner: str) -> bool:
    if place.fixed or seen.kept or not _is_empty(place.target):
        return False
    write_whole(tree / MARKER, marker.text(), place.draft(owner))
    return _renamed(tree, place.target)


def _by_swap(place: Place, seen: Comparison, tree: Path, marker: Marker, owner: str) -> bool:
    if place.fixed or seen.old is None or not _linked(place.target, tree, seen):
        return False
    if not is_complete(tree, marker):  # another owner has published it since it was found whole
        raise NotWhole(tree.name)
    write_whole(tree / MARKER, marker.text(), place.draft(owner))
    if not _renamed(place.target, place.staging / OLD):
        return False
    tree.rename(place.target)
    sync_folder(place.target.parent)
    _bring_over(place.staging / OLD, place.target, seen.ours)
    return True


def _one_by_one(place: Place, seen: Comparison, tree: Path, marker: Marker, owner: str) -> None:
    target, paths = place.target, [file.path for file in seen.listing.files]
    if (GATE in paths or GATE in seen.ours) and size_at(target / GATE) >= 0:
        _close_gate(place, seen, tree, owner)
    for path in paths:
        if path != GATE and size_at(tree / path) >= 0:
            make_folder((target / path).parent)
            (tree / path).rename(target / path)
    for path in seen.gone:
        if not tree.is_dir():  # we were replaced: this may be another's file by now
            raise NotWhole(tree.name)
        if path != GATE:
            (target / path).unlink(missing_ok=True)
    for folder in {(target / path).parent for path in paths}:
        sync_folder(folder)
    write_whole(target / MARKER, marker.text(), place.draft(owner))
    if GATE in paths:
        (tree / GATE).rename(target / GATE)
        sync_folder(target)


def _close_gate(place: Place, seen: Comparison, tree: Path, owner: str) -> None:
    """Take config.json away, to where the next process finds it when it is part of this listing."""
    if all(file.path != GATE for file in seen.kept):
        (place.target / GATE).rename(place.staging / f"{GATE}.{owner}")
    elif size_at(tree / GATE) >= 0:
        (place.target / GATE).unlink(missing_ok=True)
    else:
        (place.target / GATE).rename(tree / GATE)
    sync_folder(place.target)


def recover(place: Place) -> None:
    """End a swap that was cut off: the target is there again, whole, with all that was in it."""
    old = place.staging / OLD
    if not old.is_dir():
        return
    tree = place.staging / str(read_json(place.staging / RECORD).get("tree") or OLD)
    if not place.target.exists():
        _renamed(tree if (tree / MARKER).is_file() else old, place.target)
    before = read_marker(old)
    _bring_over(old, place.target, frozenset(file.path for file in before.listing.files) if before else frozenset())


def _bring_over(old: Path, target: Path, ours: frozenset[str]) -> None:
    """Move what no download put there (adapters, for example), then forget the old directory."""
    for folder, folders, names in os.walk(old):
        for name in (*names, *(one for one in folders if Path(folder, one).is_symlink())):
            path = Path(folder, name)
            inside = str(path.relative_to(old))
            place = target / inside
            if inside != MARKER and inside not in ours and not os.path.lexists(place):
                make_folder(place.parent)
                path.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _linked(target: Path, tree: Path, seen: Comparison) -> bool:
    """Whether the tree now has all files; False where the file system knows no hard links."""
    for file in seen.kept:
        place = tree / file.path
        if size_at(place) == file.size:
            continue
        make_folder(place.parent)
        try:
            os.link(target / file.path, place)
        except FileExistsError:
            continue
        except FileNotFoundError:
            raise
        except OSError:
            return False
    return True


def _renamed(source: Path, target: Path) -> bool:
    """Whether the directory could be renamed; a mount point and a directory with files in it cannot."""
    try:
        make_folder(target.parent)
        source.rename(target)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    sync_folder(target.parent)
    return True


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return True


def sweep(place: Place) -> None:
    """Remove the staging directory; for when all is published."""
    shutil.rmtree(place.staging, ignore_errors=True)
