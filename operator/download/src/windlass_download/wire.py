"""Sockets of the download: addresses are checked when they are connected to, and time counts for whole answers.

httpx2 limits the wait for each read. A server that sends a byte a second passes that limit for ever, as does one that
sends interim responses or chunk extensions without end. This backend adds up what one answer brings and takes.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from windlass_download.reach import Reach

SLOWEST = 1024  # bytes a second; a slower connection counts as stalled
ADDRESSES_MAX = 4  # of one name that are tried
HEAD_BYTES_MAX = 512 << 10  # of interim responses and headers; h11 ends a single head at 100 KiB


class Meter(threading.local):
    """What the answer that this thread reads has brought, and how long the thread waited for it."""

    in_head = False
    count = 0
    waited_s = 0.0

    def head(self) -> None:
        """A request goes out; its answer's head is awaited."""
        self.in_head, self.count, self.waited_s = True, 0, 0.0

    def body(self) -> None:
        """The head is there; the body begins."""
        self.in_head, self.count, self.waited_s = False, 0, 0.0

    def add(self, count: int, waited_s: float, window_s: float) -> None:
        """Count a read; ReadTimeout when the head is late, or a window of the body brought too little."""
        self.count, self.waited_s = self.count + count, self.waited_s + waited_s
        if self.in_head:
            if self.count > HEAD_BYTES_MAX:
                raise httpcore2.ReadError(f"the head of the answer has more than {HEAD_BYTES_MAX >> 10} KiB")
            if self.waited_s > 2 * window_s:
                raise httpcore2.ReadTimeout(f"the head of the answer takes more than {2 * window_s:g} s")
        elif self.waited_s >= window_s:
            if self.count < SLOWEST * self.waited_s:
                raise httpcore2.ReadTimeout(f"{self.count} bytes came in {self.waited_s:.0f} s")
            self.body()


class _Stream(httpcore2.NetworkStream):
    """A connection whose reads are counted."""

    def __init__(self, inner: httpcore2.NetworkStream, meter: Meter, window_s: float) -> None:
        self._inner, self._meter, self._window_s = inner, meter, window_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        began = time.monotonic()
        data = self._inner.read(max_bytes, timeout)
        self._meter.add(len(data), time.monotonic() - began, self._window_s)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:  # noqa: ANN401 - httpcore's own
        return _Stream(self._inner.start_tls(*args, **options), self._meter, self._window_s)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's own
        return self._inner.get_extra_info(info)


class Wire(httpcore2.SyncBackend):
    """Makes connections; without a `reach` they go wherever they are asked to, which is for proxies."""

    def __init__(self, meter: Meter, window_s: float, reach: Reach | None) -> None:
        self._meter, self._window_s, self._reach = meter, window_s, reach

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to an address of the host that may be reached."""
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in self._addresses(host, port):
            try:
                stream = super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
            else:
                return _Stream(stream, self._meter, self._window_s)
        raise failed or httpcore2.ConnectError(f"{host} has no address")

    def _addresses(self, host: str, port: int) -> list[str]:
        """What to connect to. The name is resolved once: the address that is checked is the one that is used."""
        if self._reach is None:
            return [host]
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(str(error)) from error
        found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        return self._reach.allowed(host, found)[:ADDRESSES_MAX]


def install(client: httpx2.Client, meter: Meter, window_s: float, reach: Reach) -> None:
    """Put the wire under a client, which has no option for it; the environment's proxies may lie anywhere."""
    proxies = [transport for transport in client._mounts.values() if isinstance(transport, httpx2.HTTPTransport)]
    for transport, bound in ((client._transport, reach), *((one, None) for one in proxies)):
        if not isinstance(transport, httpx2.HTTPTransport):
            raise TypeError("the client has a transport that is not httpx2's own")
        transport._pool._network_backend = Wire(meter, window_s, bound)
