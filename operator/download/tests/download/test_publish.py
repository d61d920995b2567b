"""The publication cut off at each of its steps: what is seen is whole or nothing, and the next process ends it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

import pytest
from windlass_download import publish as publication
from windlass_download.comparison import Comparison, compare, gather
from windlass_download.hubs import wanted_from
from windlass_download.place import Place, is_complete, place_of, read_marker
from windlass_download.publish import NotWhole, publish, recover, sweep
from windlass_download.wanted import SHA256, RemoteFile, listing

from .conftest import content

ONE = {"config.json": b"1", "m-0.bin": b"0" * 50, "m-1.bin": b"1" * 60, "m-2.bin": b"2" * 70, "sub/a.txt": b"a"}
TWO = {"config.json": b"2", "m-0.bin": b"0" * 50, "m-1.bin": b"one" * 30, "new/b.txt": b"b"}
SAME_CONFIG = {**TWO, "config.json": b"1"}
MINE = {"adapter/adapter_config.json": b"mine", "notes.txt": b"mine too"}
WANTED = wanted_from("huggingface", "a/b", "", "")
STEPS = ("rename", "unlink")


class Cut(BaseException):
    """The process dies here."""


class Knife:
    """Ends the process before its `at`th change of a name in the file system."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at, self.steps = -1, 0
        for step in STEPS:
            patch.setattr(Path, step, self._counting(getattr(Path, step)))

    def _counting(self, real):
        def step(*args, **kwargs):
            if self.steps == self.at:
                raise Cut
            self.steps += 1
            return real(*args, **kwargs)

        return step

    def cuts(self, work) -> bool:
        self.steps = 0
        try:
            work()
        except Cut:
            return True
        finally:
            self.at = -1
        return False


def fetched(place: Place, files: dict[str, bytes]) -> Comparison:
    """Everything before the publication but the network: recover, compare, gather."""
    rows = [RemoteFile(path, len(data), SHA256, hashlib.sha256(data).hexdigest()) for path, data in files.items()]
    place.staging.mkdir(parents=True, exist_ok=True)
    recover(place)
    seen = compare(place, WANTED, listing("c", rows, WANTED), verify=False)
    for file in gather(place, seen, "me"):
        there = place.tree(seen.listing.key) / file.path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(files[file.path])
    return seen


def bring(place: Place, files: dict[str, bytes]) -> None:
    """Everything but the network."""
    publish(place, WANTED, fetched(place, files), "me")


def put(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def is_whole_or_hidden(target: Path, *models: dict[str, bytes]) -> bool:
    """With a config.json, all files of one model are there; without one, nothing is a model."""
    found = content(target) if target.is_dir() else {}
    return "config.json" not in found or any(model.items() <= found.items() for model in models)


@pytest.fixture(params=["models/tiny", ""], ids=["directory", "root"])
def place(request, tmp_path) -> Place:
    return place_of(tmp_path, request.param)


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("new", [TWO, SAME_CONFIG], ids=["other config", "same config"])
def test_a_revision_cut_off_at_each_step(place, new, links, monkeypatch, tmp_path_factory):
    """What the user put there is there in the end, too."""
    bring(place, ONE)
    sweep(place)
    put(place.target, MINE)
    before, root = tmp_path_factory.mktemp("before") / "all", _root(place)
    shutil.copytree(root, before, symlinks=True)
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    knife, cuts = Knife(monkeypatch), 0
    while True:
        knife.at = cuts
        was_cut = knife.cuts(lambda: bring(place, new))
        assert is_whole_or_hidden(place.target, ONE, new)
        bring(place, new)
        assert content_of(place) == {**new, **MINE}
        marker = read_marker(place.target)
        assert marker is not None
        assert is_complete(place.target, marker)
        if not was_cut:
            break
        cuts += 1
        shutil.rmtree(root)
        shutil.copytree(before, root, symlinks=True)
    assert cuts >= 7


def test_a_first_publication_cut_off_at_each_step(place, monkeypatch):
    knife, cuts, root = Knife(monkeypatch), 0, _root(place)
    while True:
        knife.at = cuts
        was_cut = knife.cuts(lambda: bring(place, ONE))
        assert is_whole_or_hidden(place.target, ONE)
        bring(place, ONE)
        assert content_of(place) == ONE
        if not was_cut:
            break
        cuts += 1
        shutil.rmtree(root)
        root.mkdir()
    assert cuts >= 4


def test_a_directory_of_the_user_s_own_gets_the_model_in_place(tmp_path):
    place = place_of(tmp_path, "models/tiny")
    put(place.target, MINE)
    inode = place.target.stat().st_ino
    bring(place, ONE)
    sweep(place)
    assert content(place.target) == {**ONE, **MINE}
    assert place.target.stat().st_ino == inode


def test_a_link_of_the_user_s_own_stays_over_revisions(tmp_path):
    place = place_of(tmp_path, "models/tiny")
    bring(place, ONE)
    sweep(place)
    (tmp_path / "shared").mkdir()
    (place.target / "lora").symlink_to("../../shared")
    bring(place, TWO)
    sweep(place)
    assert (place.target / "lora").readlink() == Path("../../shared")


def test_a_tree_that_another_owner_publishes_takes_no_whole_model_away(tmp_path, monkeypatch):
    """Both own the target; the other is faster, between this one's look at the tree and its swap."""
    place, links = place_of(tmp_path, "models/tiny"), publication._linked
    bring(place, ONE)
    mine, other = fetched(place, TWO), fetched(place, TWO)

    def late(*words):
        monkeypatch.setattr(publication, "_linked", links)
        publish(place, WANTED, other, "other")
        return links(*words)

    monkeypatch.setattr(publication, "_linked", late)
    with pytest.raises(NotWhole):
        publish(place, WANTED, mine, "me")
    assert content(place.target) == TWO


def content_of(place: Place) -> dict[str, bytes]:
    """Without the staging directory, which at a root lies inside."""
    return {path: data for path, data in content(place.target).items() if not path.startswith(".windlass-download-")}


def _root(place: Place) -> Path:
    return place.target if place.fixed else place.target.parent.parent


def _no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "no hard links here")
