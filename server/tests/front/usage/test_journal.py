"""A journal that cannot be written: the pause before the next try, and a folder that is gone."""

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest
from windlass.front.usage import hours, journal
from windlass.front.usage.journal import PAUSE_S, Journals
from windlass.front.usage.read import Tokens
from windlass_testbed.waiting import HANG_S

NOON = 1_800_000_000.0
TOKENS = Tokens(7, 3, 2)


class Clocks:
    """The time of day and a clock that is never put back."""

    def __init__(self) -> None:
        self.day, self.steady = NOON, 5.0

    def journals(self, place: Path) -> Journals:
        return Journals(place, lambda: self.day, lambda: self.steady)


def add(journals: Journals) -> None:
    batch = journals.add("a", "m", TOKENS, estimated=False)
    assert batch is not None
    batch.result(HANG_S)


def total(place: Path) -> int:
    return sum(row["requests"] for row in hours.records(place))


def test_a_clock_put_back_does_not_prolong_the_pause(tmp_path: Path) -> None:
    """The pause after a failure is measured by a clock of its own."""
    clocks, place = Clocks(), tmp_path / "usage"
    journals = clocks.journals(place)
    place.write_text("no folder")
    add(journals)
    place.unlink()
    clocks.day -= 3600
    add(journals)
    assert journals.unrecorded == 2
    clocks.steady += PAUSE_S
    add(journals)
    assert (journals.unrecorded, total(place)) == (2, 1)


def test_a_folder_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    """As when a volume was replaced: one record is lost, at the next journal."""
    clocks, place = Clocks(), tmp_path / "usage"
    journals = clocks.journals(place)
    add(journals)
    shutil.rmtree(place)
    clocks.day += 3600
    for _ in range(3):
        add(journals)
    assert (journals.unrecorded, total(place)) == (1, 2)


class Failing:
    """The module `os`, whose `write` fails, and which counts the closed files."""

    def __init__(self, number: int) -> None:
        self.number, self.closed = number, 0

    def __getattr__(self, name: str):
        return getattr(os, name)

    def write(self, *_: object) -> int:
        raise OSError(self.number, os.strerror(self.number))

    def close(self, file: int) -> None:
        self.closed += 1
        os.close(file)


@pytest.mark.parametrize(
    ("number", "tries"),
    [(errno.EIO, 1), (errno.ENOSPC, 5)],
    ids=["a broken disk is tried again after the pause", "a full disk at once"],
)
def test_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, tries: int
) -> None:
    """A folder that never took a record is closed; the log has one line in a pause."""
    clocks, writes = Clocks(), list[object]()
    journals, failing = clocks.journals(tmp_path), Failing(number)
    write = journal._Writer.write
    monkeypatch.setattr(journal, "os", failing)
    monkeypatch.setattr(journal._Writer, "write", lambda *words: (writes.append(words), write(*words))[1])
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            add(journals)
    assert (journals.unrecorded, len(writes), len(caplog.records)) == (5, tries, 1)
    assert (journals._writer is None) is (number == errno.EIO)
    monkeypatch.undo()
    clocks.steady += PAUSE_S
    add(journals)
    assert (journals.unrecorded, total(tmp_path)) == (5, 1)


def test_a_moment_without_descriptors_loses_no_more_than_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is fine, so its writer stays, and the next record is written."""
    clocks, place = Clocks(), tmp_path / "usage"
    journals = clocks.journals(place)
    add(journals)
    clocks.day += 3600
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_descriptors)
        add(journals)
    add(journals)
    assert (journals.unrecorded, total(place)) == (1, 2)
    assert len([each for each in place.iterdir() if each.is_dir()]) == 1


def no_descriptors(*_: object, **__: object) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
