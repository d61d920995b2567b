"""Free ports for servers that a test starts and that take a port by its number.

They lie below the range from which the kernel takes the ports of outgoing connections. A port from that range may be
gone before the test's server binds it.
"""

import random
import socket

FIRST, END = 12_000, 30_000
"""Linux gives connections the ports from 32768 on; Kubernetes gives node ports from 30000 on."""


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on, all different."""
    found: list[int] = []
    for port in random.sample(range(FIRST, END), END - FIRST):
        if len(found) == count:
            return found
        if _is_free(port):
            found.append(port)
    raise RuntimeError(f"fewer than {count} ports from {FIRST} to {END - 1} are free")


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
