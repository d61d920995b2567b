"""The HTTP connection as uvicorn speaks it, with limits in time, size and number that uvicorn does not have.

The license server and the console hand it to uvicorn. Every state of a connection has a deadline: the TLS handshake and
the first header, the body, the answer, the pause between two requests. A peer has a number of connections and of
requests a second (`peers`). When all connections are taken, one that waits without a whole request goes, of an address
that has many. The application never sees what is refused here.
"""

import asyncio
import json
import resource
import ssl
from collections.abc import Callable
from itertools import islice
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass_base.front.handshake import LateTls
from windlass_base.front.peers import Allowance, AllowanceOf, FrontLimits, Peers

SWEEP_S = 0.5
"""How often deadlines are looked at."""
LOOKED_AT = 64
"""Connections that are compared when one has to make room: all of a small server's, where probes come in, too."""
_FILES_KEPT = 128
"""File descriptors for the database, the log, the API server and the listening socket."""
_FILES_MOST = 65_536
_LINGER_S = 2.0
"""How long a client may take to read a refusal while it still sends."""
_LINGER_BYTES = 2**20
_REASONS = {
    400: "Bad Request",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
}


def _document(reason: str, message: str) -> dict[str, object]:
    return {"reason": reason, "message": message}


class Front:
    """All connections of one server."""

    def __init__(
        self,
        limits: FrontLimits,
        allowance_of: AllowanceOf | None = None,
        document: Callable[[str, str], dict[str, object]] = _document,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`allowance_of` a request's path; `document` makes a refusal's JSON of its reason and its sentence.

        With `tls` connections are encrypted; uvicorn listens without it.
        """
        plain = Allowance(limits.body_bytes, limits.body_s, limits.answer_s)
        self.limits, self.document, self.tls = limits, document, tls
        self.allowance_of: AllowanceOf = allowance_of or (lambda _: plain)
        self.peers = Peers(limits)
        self.connections: set[GuardedProtocol] = set()
        self.waiting: dict[GuardedProtocol, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def admit(self, connection: "GuardedProtocol", loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this connection may stay; one that waits longer may have to go for it."""
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        if not self.peers.connect(connection.peer, loop.time()):
            return False
        if len(self.connections) >= self.limits.connections:
            self.peers.turned_away["total"] += 1
            parting = self._parting()
            if parting is None:
                self.peers.disconnect(connection.peer)
                return False
            parting.leave()
        self.connections.add(connection)
        return True

    def _parting(self) -> "GuardedProtocol | None":
        """The connection that makes room: of those that wait longest, the first of the address that has the most."""
        longest = islice(self.waiting, LOOKED_AT)
        return max(longest, key=lambda one: self.peers.connections(one.peer), default=None)

    def forget(self, connection: "GuardedProtocol") -> None:
        """The connection is closed."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.waiting.pop(connection, None)
            self.peers.disconnect(connection.peer)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        late = [one for one in self.connections if one.deadline_s <= now_s]
        self.peers.turned_away["time"] += sum(not one.idle for one in late)
        for one in late:
            one.leave()
        self.peers.sweep(now_s)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)


class GuardedProtocol(LateTls, HttpToolsProtocol):
    """One connection."""

    front: Front

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  uvicorn's own arguments
        super().__init__(*args, **kwargs)
        self.peer, self.deadline_s, self.idle = "", 0.0, False
        self._head_bytes, self._in_head, self._refused, self._lingering = 0, True, False, 0
        self._refusal = b""
        """To be sent as soon as no answer is under way."""
        self._allowance = self.front.allowance_of(b"")
        self._prepaid = 1.0
        """The connection's share of its peer's rate counts for its first request: an address that opens one for each
        request, and too many of them, is answered at the rate, not never."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or close it without a word; after its TLS handshake it is taken already."""
        super().connection_made(transport)
        if self.handshake is not None:
            return
        self.peer = self.client[0] if self.client else ""
        if not self.front.admit(self, self.loop):
            self._refused = True
            transport.abort()
            return
        self._wait(self.front.limits.head_s)
        if self.front.tls is not None:
            self.begin_tls(self.front.tls)

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another."""
        self.front.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, unless the connection is refused already or its header does not end."""
        if self._refused:
            self._linger(len(data))
            return
        if self.idle:
            self._wait(self.front.limits.head_s)
        was_in_head = self._in_head
        super().data_received(data)
        if self._in_head and was_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.front.limits.head_bytes:
                self._refuse_head()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Refuse by size and rate before anything is read or made for the request."""
        self._in_head = False
        if self._refused:  # an earlier request of the same piece
            return
        allowance = self.front.allowance_of(_path(self.url))
        cost, self._prepaid = max(0.0, allowance.cost - self._prepaid), 0.0
        if not self.front.peers.request(self.peer, self.loop.time(), cost):
            self._refuse(429, "this address asks too often; ask again in a second")
        elif _size(self.url, self.headers) > self.front.limits.head_bytes:  # it came in one piece
            self._refuse_head()
        elif _length(self.headers) > allowance.body_bytes:
            self._refuse(413, f"the request is larger than {allowance.body_bytes / 1024:.0f} KiB")
        else:
            self._allowance = allowance
            self._wait(allowance.body_s)
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole: from here on its answer is what takes time."""
        if not self._refused:
            self._await_answer()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """The client takes what is left of the answer, or asks again; or its next request has its turn."""
        super().on_response_complete()
        is_closing = self.transport.is_closing()
        if self._is_answering() and not is_closing:
            self._await_answer()
        elif self._refusal and not is_closing:
            self._send_refusal()
        else:
            self._wait(self.front.limits.idle_s)
            self.idle = True

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP; inside a body they leave nothing that the request could wait for."""
        if self._is_answering() and self.cycle.more_body:
            self.leave()
        else:
            self._refuse(400, msg)

    def leave(self) -> None:
        """Close at once, whatever is under way."""
        self.front.forget(self)
        self.abort()

    def _wait(self, seconds: float) -> None:
        self.idle, self.deadline_s = False, self.loop.time() + seconds
        self.front.waiting.pop(self, None)
        self.front.waiting[self] = None

    def _await_answer(self) -> None:
        self.deadline_s = self.loop.time() + self._allowance.answer_s
        self.front.waiting.pop(self, None)

    def _is_answering(self) -> bool:
        """Whether the newest request, which is answered last, has no whole answer yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_head(self) -> None:
        self._refuse(431, f"the header is larger than {self.front.limits.head_bytes // 1024} KiB")

    def _refuse(self, status: int, message: str) -> None:
        """Read nothing more; a client takes the first answer for that of its first request, so those go before."""
        if self._refused:
            return
        self._refused = True
        body = json.dumps(self.front.document(_REASONS[status].replace(" ", ""), message)).encode()
        again = b"retry-after: 1\r\n" if status == 429 else b""
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n".encode()
        self._refusal = head + again + f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        if not self._is_answering():
            self._send_refusal()

    def _send_refusal(self) -> None:
        self.deadline_s = self.loop.time() + _LINGER_S
        self.transport.write(self._refusal)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _linger(self, received: int) -> None:
        """A client that still sends would lose the answer if the connection were closed under it."""
        self._lingering += received
        if self._lingering > _LINGER_BYTES:
            self.leave()


def guarded(front: Front) -> type[GuardedProtocol]:
    """The protocol class of one server, for uvicorn."""
    return type("GuardedProtocol", (GuardedProtocol,), {"front": front})


def raise_file_limit(limits: FrontLimits, say: Callable[[str], None]) -> int:
    """Ask for the file descriptors that the connections need; how many connections there may be then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(_FILES_MOST, limits.connections + _FILES_KEPT)
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = max(1, min(limits.connections, soft - _FILES_KEPT))
    if possible < limits.connections:
        say(f"{soft} open files are allowed, so {possible} connections are taken instead of {limits.connections}")
    return possible


def _path(target: bytes) -> bytes:
    """The path as the application sees it: without the host of an absolute address, without percent signs."""
    path: bytes = httptools.parse_url(target).path or b""
    return unquote_to_bytes(path) if b"%" in path else path


def _size(target: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """Bytes of a head; each line has a colon, a blank and its end beside name and value."""
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers)


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    announced = next((value for name, value in headers if name == b"content-length"), b"0")
    return int(announced) if announced.isdigit() and len(announced) < 19 else 0
