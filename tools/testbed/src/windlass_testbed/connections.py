"""Connections that a test holds open."""

import socket


def is_open(line: socket.socket) -> bool:
    """Return whether the server has not closed its end; never waits, and takes a byte if one is there."""
    line.setblocking(False)
    try:
        return bool(line.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False
