"""Who may go when the pods of a group are told to."""

import socket
import threading
import time

from windlass.group import leave
from windlass.group.plan import GroupPlan


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_head_waits_until_nobody_sends_it_requests() -> None:
    """So does a server without a group."""
    for plan in (None, GroupPlan("h", 2, 0, "native")):
        slept: list[float] = []
        leave.stay(plan, 60, slept.append)
        assert slept == [leave.ENDPOINTS_GONE_S]


def test_a_follower_stays_as_long_as_its_head() -> None:
    """It goes when the head's port is closed."""
    head = listener()
    plan = GroupPlan("127.0.0.1", 2, 1, "native", port=head.getsockname()[1])
    waiting = threading.Thread(target=leave.stay, args=(plan, 60))
    waiting.start()
    time.sleep(1.5)
    assert waiting.is_alive()
    head.close()
    waiting.join(5)
    assert not waiting.is_alive()


def test_a_follower_does_not_stay_for_ever(monkeypatch) -> None:
    """A head that goes on serving, as when one node alone is emptied, is not waited for without end."""
    monkeypatch.setattr(leave, "ENDPOINTS_GONE_S", 0.25)
    monkeypatch.setattr(leave, "HEAD_STOPS_S", 0.25)
    with listener() as head:
        began = time.monotonic()
        leave.stay(GroupPlan("127.0.0.1", 2, 1, "native", port=head.getsockname()[1]), 0.5)
        assert 1.0 <= time.monotonic() - began < 5


def test_a_head_without_a_name_yet_is_gone() -> None:
    assert not leave.answers("no-such-host.invalid", 8503)
