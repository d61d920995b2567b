"""Waits until a Ray cluster has its members: `python -m windlass.group.ray_nodes ADDRESS SIZE SECONDS`.

A process of its own, because a client of Ray starts threads and processes that the supervisor does not want. Prints
what it sees, and ends with 1 when members are missing after the time; 0 seconds wait for ever.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

POLL_S = 0.5


def summary(nodes: list[Mapping[str, Any]]) -> str:
    """The living nodes and their cards, in a line."""
    alive = [node for node in nodes if node.get("Alive")]
    cards = sum(int(node.get("Resources", {}).get("GPU", 0)) for node in alive)
    where = ", ".join(sorted(str(node.get("NodeManagerAddress")) for node in alive))
    return f"the Ray cluster has {len(alive)} machines and {cards} GPUs: {where}"


def main(words: list[str]) -> int:
    """Wait; the exit code."""
    address, size, limit_s = words[0], int(words[1]), float(words[2])
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="warning")
    until, printed = time.monotonic() + limit_s, ""
    while True:
        nodes = ray.nodes()
        if printed != (printed := summary(nodes)):
            print(f"windlass: {printed}", flush=True)
        if sum(bool(node.get("Alive")) for node in nodes) >= size:
            return 0
        if limit_s and time.monotonic() > until:
            return 1
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
