"""What a dead process left is taken over by its checksums, never by its word."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest
from windlass_download.partfile import PartFile, has_content, make_folder
from windlass_download.wanted import GIT_SHA1, SHA256, RemoteFile

from .hub import git_id

DATA = bytes(range(256)) * 40
PART = 1000
REMOTE = RemoteFile("m.bin", len(DATA), SHA256, hashlib.sha256(DATA).hexdigest())


def left_by_a_dead_one(folder, parts=range(11), part_bytes=PART):
    """A file of which these parts are finished."""
    folder.mkdir()
    file = PartFile(folder, REMOTE, part_bytes)
    file.open()
    for number in parts:
        part = file.parts[number]
        data = DATA[part.start : part.end]
        file.write(data, part.start)
        file.finish(part, zlib.crc32(data))
    file.close()
    return file


@pytest.fixture
def mine(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    file = PartFile(folder, REMOTE, PART)
    yield file
    file.close()


def test_finished_parts_are_copied_into_a_file_of_our_own(tmp_path, mine):
    old = left_by_a_dead_one(tmp_path / "old", parts=[0, 1, 4, 10])
    assert mine.adopt(tmp_path / "old") == 3 * PART + 240
    assert [part.number for part in mine.missing()] == [2, 3, 5, 6, 7, 8, 9]
    assert mine.path.stat().st_ino != old.path.stat().st_ino


def test_what_the_old_one_still_writes_reaches_nothing(tmp_path, mine):
    """It was paused, not dead."""
    old = left_by_a_dead_one(tmp_path / "old")
    old_bytes = old.path.open("r+b", buffering=0)
    assert mine.adopt(tmp_path / "old") == len(DATA)
    old_bytes.write(b"x" * 5000)
    old_bytes.close()
    assert mine.is_right()
    mine.move_to(tmp_path / "done")
    assert (tmp_path / "done").read_bytes() == DATA


@pytest.mark.parametrize("damage", ["torn", "zero", "short", "journal", "other size", "link", "gone"])
def test_what_a_crash_damaged_is_fetched_again(tmp_path, mine, damage):
    """The journal may be ahead of the data, cut off anywhere, or of another time."""
    old = left_by_a_dead_one(tmp_path / "old", part_bytes=500 if damage == "other size" else PART)
    lost = {"torn": 1, "zero": 11, "short": 5, "journal": 3, "other size": 11, "link": 11, "gone": 11}[damage]
    if damage == "torn":
        with old.path.open("r+b") as file:
            file.seek(2 * PART + 7)
            file.write(b"!")
    elif damage == "zero":
        old.path.write_bytes(bytes(len(DATA)))
    elif damage == "short":
        old.path.write_bytes(DATA[: 6 * PART + 5])
    elif damage == "journal":
        text = old.journal.read_bytes()
        old.journal.write_bytes(text[: len(text) - 2 * len("10 01234567\n") - 5])
    elif damage == "link":
        old.path.rename(tmp_path / "elsewhere")
        old.path.symlink_to(tmp_path / "elsewhere")
    elif damage == "gone":
        old.path.unlink()
    mine.adopt(tmp_path / "old")
    assert len(mine.missing()) == lost
    for part in mine.missing():
        mine.open()
        mine.write(DATA[part.start : part.end], part.start)
        mine.finish(part, 0)
    assert mine.is_right()


def test_a_file_that_is_not_whole_is_not_right(tmp_path, mine):
    mine.open()
    for part in mine.parts[:-1]:
        mine.write(DATA[part.start : part.end], part.start)
        mine.finish(part, 0)
    assert not mine.is_right()


@pytest.mark.parametrize(
    ("remote", "right"),
    [
        (REMOTE, True),
        (RemoteFile("m.bin", len(DATA), GIT_SHA1, git_id(DATA)), True),
        (RemoteFile("m.bin", len(DATA)), True),
        (RemoteFile("m.bin", len(DATA), GIT_SHA1, "0" * 40), False),
        (RemoteFile("m.bin", len(DATA) + 1), False),
    ],
    ids=["sha256", "git", "none", "other content", "other size"],
)
def test_content_is_checked_by_the_hub_s_own_digest(tmp_path, remote, right):
    (tmp_path / "m.bin").write_bytes(DATA)
    assert has_content(tmp_path / "m.bin", remote) is right


def test_a_directory_that_goes_while_it_is_made_is_not_there(tmp_path, monkeypatch):
    """Another process sweeps it between the two questions of `Path.mkdir`."""

    def sweeps(folder):
        folder.rmdir()
        return False

    monkeypatch.setattr(Path, "is_dir", sweeps)
    (tmp_path / "staging").mkdir()
    with pytest.raises(FileNotFoundError):
        make_folder(tmp_path / "staging")


def test_what_is_no_directory_is_in_the_way(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            make_folder(tmp_path / name)
