"""A short load in the gate: slow readers, clients that leave in mid-stream, and more clients than there is room for.

`make load-clients` is the long one.
"""

import pytest

from .own_commands import BEARER, FLAGS, check

COMMAND = "vllm serve /data/model --port 8501 --dtype float32 --max-model-len 1024 --served-model-name demo"
PLACES, WAITING = 16, 64


@pytest.fixture(scope="module")
def address(engine):
    limits = (str(PLACES), "--max-waiting-requests", str(WAITING))
    with engine.serving(*COMMAND.split(), *FLAGS, *limits) as url:
        yield url


def test_the_engines_own_command_takes_our_flags(address):
    """S: all flags work with the three start commands; here with `vllm serve`."""
    check(address, "demo", PLACES)


def load(engine, address, *flags):
    """What the clients report."""
    return engine.load(address, "--api-key", BEARER["Authorization"].split()[1], *flags)


def test_books_agree_and_nothing_is_left(engine, address):
    """Every answer is whole, counters and answers say the same, every place is free again, memory stays."""
    report = load(engine, address, "--clients", "60", "--requests", "80", "--short", "--warm-ups", "1")
    assert report["mistakes"] == []
    last = report["rounds"][-1]
    assert (last["requests"], last["refused"]) == (80, 0)
    assert last["left"] > 0
    assert last["complete"] + last["left"] == 80
    assert last["most_waiting"] > 0, "the queue was never used"


@pytest.mark.long
def test_more_than_there_is_room_for(engine, address):
    """429 with Retry-After for some, whole answers for all others, and nothing is left."""
    report = load(engine, address, "--clients", "160", "--requests", "160", "--short", "--warm-ups", "1", "--refusals")
    assert report["mistakes"] == []
    for one in report["rounds"]:
        assert one["refused"] > 0
        assert one["complete"] + one["left"] + one["refused"] == 160
