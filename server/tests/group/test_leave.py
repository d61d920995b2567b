"""Who may go when the pods of a group are told to."""

import socket
from collections.abc import Callable

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


class Clock:
    """Simulated seconds; what is due happens in the sleep that reaches its time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events: list[tuple[float, Callable[[], None]]] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for due_s, event in self.events:
            if due_s <= self.now_s:
                event()


def test_a_follower_stays_as_long_as_its_head() -> None:
    """It goes when the head's port is closed."""
    clock, head = Clock(), listener()
    clock.events.append((30, head.close))
    plan = GroupPlan("127.0.0.1", 2, 1, "native", port=head.getsockname()[1])
    leave.stay(plan, 10, clock.sleep, lambda: clock.now_s)
    assert clock.now_s == 30


def test_a_follower_does_not_stay_for_ever() -> None:
    """A head that goes on serving, as when one node alone is emptied, is not waited for without end."""
    clock = Clock()
    with listener() as head:
        plan = GroupPlan("127.0.0.1", 2, 1, "native", port=head.getsockname()[1])
        leave.stay(plan, 10, clock.sleep, lambda: clock.now_s)
    assert clock.now_s == leave.ENDPOINTS_GONE_S + 10 + leave.HEAD_STOPS_S


def test_a_head_without_a_name_yet_is_gone() -> None:
    assert not leave.answers("no-such-host.invalid", 8503)
