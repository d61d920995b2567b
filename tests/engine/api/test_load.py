"""A short load in the gate: slow readers, clients that leave in mid-stream, and more clients than there is room for.

`make load-clients` is the long one. `processes/test_hang.py` goes on with the same server.
"""

import pytest

from ..conftest import PLACES
from .own_commands import BEARER, check


def test_the_engines_own_command_takes_our_flags(busy):
    """S: all flags work with the three start commands; here with `vllm serve`."""
    check(busy, "demo", PLACES)


def load(engine, address, *flags):
    """What the clients report."""
    return engine.load(address, "--api-key", BEARER["Authorization"].split()[1], *flags)


def test_books_agree_and_nothing_is_left(engine, busy):
    """Every answer is whole, counters and answers say the same, every place is free again, memory stays."""
    report = load(engine, busy, "--clients", "60", "--requests", "80", "--short", "--warm-ups", "1")
    assert report["mistakes"] == []
    last = report["rounds"][-1]
    assert (last["requests"], last["refused"]) == (80, 0)
    assert last["left"] > 0
    assert last["complete"] + last["left"] == 80
    # By the guard's own sum; `most_waiting` is a sample, and on a busy machine it may come after the queue's end.
    assert last["mean_wait_s"] > 0, "the queue was never used"


@pytest.mark.long
def test_more_than_there_is_room_for(engine, busy):
    """429 with Retry-After for some, whole answers for all others, and nothing is left."""
    report = load(engine, busy, "--clients", "160", "--requests", "160", "--short", "--warm-ups", "1", "--refusals")
    assert report["mistakes"] == []
    for one in report["rounds"]:
        assert one["refused"] > 0
        assert one["complete"] + one["left"] + one["refused"] == 160
