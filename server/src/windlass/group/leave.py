"""What a member does first when its pod is told to go: its preStop hook, `python3 -m windlass.group.leave SECONDS`.

The head waits until nobody sends it new requests; then it is told to stop and finishes its answers. A follower is
needed for that, so it stays until the head has gone. Without a group it is a head.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable

from windlass.group.plan import GroupPlan, group_plan

ENDPOINTS_GONE_S = 5.0
HEAD_STOPS_S = 15.0
"""What a head may take beyond its answers until it has gone."""
POLL_S = 0.5
TRY_S = 2.0
ANY_ENGINE = "cuda"


def answers(head: str, port: int) -> bool:
    """Whether the head still listens to its followers."""
    try:
        with socket.create_connection((head, port), TRY_S):
            return True
    except OSError:
        return False


def stay(
    plan: GroupPlan | None,
    drain_s: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Return when this member may be told to stop; a follower waits for the head's `drain_s`, but not for ever."""
    if plan is None or plan.is_head:
        sleep(ENDPOINTS_GONE_S)
        return
    until = clock() + ENDPOINTS_GONE_S + drain_s + HEAD_STOPS_S
    while clock() < until and answers(plan.head, plan.port):
        sleep(POLL_S)


if __name__ == "__main__":
    stay(group_plan(os.environ, socket.gethostname(), ANY_ENGINE), float(sys.argv[1]))
