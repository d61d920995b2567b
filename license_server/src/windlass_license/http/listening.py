"""The sockets that the server listens on, before anything else is opened: what cannot be had is one sentence.

uvicorn would log a traceback, and end with a code of its own, after the data was opened.
"""

import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from windlass_license.errors import SettingsError

BACKLOG = 2048
"""Connections that wait to be accepted, as uvicorn has them."""
_Address = tuple[socket.AddressFamily, tuple[object, ...]]
_WHY = {
    errno.EADDRINUSE: "--port {port} of {host} is taken by another program; stop that, or give another port",
    errno.EADDRNOTAVAIL: "--host {host} is no address of this machine; give one of its own, or 0.0.0.0 for all",
    errno.EACCES: "--port {port} may not be listened on by this user; give one above 1023",
}


_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""A name may have addresses that this machine lacks: `localhost` has ::1 also where there is no IPv6."""


@contextmanager
def listening(host: str, port: int) -> Iterator[list[socket.socket]]:
    """A listening socket for every address of the host; SettingsError names the option that is wrong."""
    with ExitStack() as stack:
        yield _all_bound(_addresses(host, port), stack, host, port)


def urls(sockets: Sequence[socket.socket], scheme: str) -> Sequence[str]:
    """Where these sockets listen, as `http://127.0.0.1:10080`."""
    where = [one.getsockname()[:2] for one in sockets]
    return [f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}" for host, port in where]


def _all_bound(addresses: Sequence[_Address], stack: ExitStack, host: str, port: int) -> list[socket.socket]:
    sockets, missing = list[socket.socket](), list[OSError]()
    for address in addresses:
        try:
            sockets.append(stack.enter_context(_bound(address)))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise _unusable(error, host, port) from error
            missing.append(error)
    if not sockets:
        raise _unusable(missing[0], host, port)
    return sockets


def _unusable(error: OSError, host: str, port: int) -> SettingsError:
    why = _WHY.get(error.errno or 0, "--host {host} and --port {port} cannot be listened on: {words}; give others")
    return SettingsError(why.format(host=host, port=port, words=error.strerror or error))


def _addresses(host: str, port: int) -> Sequence[_Address]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, ValueError) as error:  # the second for a name that cannot be written for the DNS
        words = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"--host {host} is unknown: {words}; give an address of this machine, as 0.0.0.0"
        ) from error
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _bound(address: _Address) -> socket.socket:
    family, where = address
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # an IPv4 address of the same name has a socket of its own
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(where)
        one.listen(BACKLOG)  # two programs may bind one port with SO_REUSEADDR, while neither listens
    except OSError:
        one.close()
        raise
    return one
