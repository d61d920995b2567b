"""One owner at a time, without locks and without comparing clocks."""

from __future__ import annotations

import json
import threading

import pytest
from windlass_download.claim import Claim, Claimant, ClaimLost, newest


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def claimant(folder, owner, clock) -> Claimant:
    return Claimant(folder, owner, 60, clock)


def test_the_first_one_owns_and_the_second_waits(tmp_path):
    clock = Clock()
    first, second = claimant(tmp_path, "a", clock).take(), claimant(tmp_path, "b", clock)
    assert first is not None
    assert second.take() is None
    first.renew({"bytesDone": 5})
    assert second.progress() == {"bytesDone": 5}


def test_a_claim_that_changes_is_alive_however_long_it_takes(tmp_path):
    clock = Clock()
    first, second = claimant(tmp_path, "a", clock).take(), claimant(tmp_path, "b", clock)
    for _ in range(10):
        assert second.take() is None
        clock.now += 59
        first.renew({})
    assert second.take() is None


def test_a_claim_that_does_not_change_is_taken_over(tmp_path):
    clock = Clock()
    first, second = claimant(tmp_path, "a", clock).take(), claimant(tmp_path, "b", clock)
    assert second.take() is None
    clock.now = 60
    taken = second.take()
    assert taken is not None
    with pytest.raises(ClaimLost):
        first.renew({})
    taken.renew({})
    first.release()
    assert claimant(tmp_path, "c", clock).take() is None


def test_what_is_given_back_is_taken_at_once(tmp_path):
    clock = Clock()
    claimant(tmp_path, "a", clock).take().release()
    assert claimant(tmp_path, "b", clock).take() is not None


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 10, b"[]", b'{"owner": 5}'])
def test_a_claim_that_cannot_be_read_becomes_stale_like_any_other(tmp_path, content):
    """Its owner died between making and writing it, or the power went."""
    (tmp_path / "claim-7").write_bytes(content)
    clock = Clock()
    second = claimant(tmp_path, "b", clock)
    assert second.take() is None
    clock.now = 60
    assert second.take() is not None
    assert newest(tmp_path) == 8


def test_of_many_exactly_one_takes_over(tmp_path):
    (tmp_path / "claim-3").write_text("{}")
    clock = Clock()
    many = [claimant(tmp_path, f"o{number}", clock) for number in range(16)]
    assert [one.take() for one in many] == [None] * 16
    clock.now = 60
    start, taken = threading.Barrier(16), []

    def race(one):
        start.wait()
        taken.append(one.take())

    threads = [threading.Thread(target=race, args=[one]) for one in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in taken if one is not None]) == 1
    assert newest(tmp_path) == 4


def test_a_claim_that_was_swept_away_is_lost(tmp_path):
    claim = claimant(tmp_path, "a", Clock()).take()
    (tmp_path / "claim-1").unlink()
    with pytest.raises(ClaimLost):
        claim.renew({})
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_another_with_our_number_is_lost(tmp_path):
    (tmp_path / "claim-1").write_text(json.dumps({"owner": "b"}))
    with pytest.raises(ClaimLost):
        Claim(tmp_path, "a", 1).renew({})
