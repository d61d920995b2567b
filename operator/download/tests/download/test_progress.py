"""The facts and the line of a download: a hub that gives nothing is in both until it gives something."""

from __future__ import annotations

import pytest
from windlass_download.progress import Progress

WORDS = "no answer from the hub: [Errno -2] Name or service not known"


def begun(progress: Progress) -> None:
    progress.begin(100, 2)


def gained(progress: Progress) -> None:
    progress.fetched(10, "a")


@pytest.mark.parametrize("news", [begun, gained])
def test_a_trouble_shows_until_the_hub_gives_something(news):
    """A listing or a byte ends it."""
    progress = Progress(lambda: 0.0)
    progress.note(WORDS)
    assert progress.facts()["download"]["trouble"] == WORDS
    assert progress.line() == f"download: the hub is asked for its files ({WORDS})"
    news(progress)
    assert "trouble" not in progress.facts()["download"]


def test_a_trouble_between_two_parts_shows_beside_the_bytes():
    progress = Progress(lambda: 0.0)
    progress.begin(100, 2)
    progress.have(50, 1)
    progress.note(WORDS)
    assert progress.line() == f"download: 50 B of 100 B (50 %), 0 B/s, 1 of 2 files ({WORDS})"


def test_the_trouble_of_the_awaited_process_shows():
    """Its words come from a file on the volume, so they are made printable."""
    owner, other = Progress(lambda: 0.0), Progress(lambda: 0.0)
    owner.note(WORDS)
    other.waiting(owner.snapshot())
    assert other.facts()["download"]["trouble"] == WORDS
    other.waiting({"trouble": "a\nb"})
    assert other.line() == "download: another download of this target is under way: it begins (a?b)"
