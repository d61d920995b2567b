"""Ports for the servers of tests."""

import socket
from pathlib import Path

from windlass_testbed import ports


def test_they_are_free_and_not_the_kernels() -> None:
    found = ports.free_ports(20)
    assert len({*found}) == 20
    first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert max(found) < first
    for port in found:
        socket.create_server(("127.0.0.1", port)).close()


def test_one_that_is_taken_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not ports._is_free(port)
