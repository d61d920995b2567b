"""Limits of connections that uvicorn has none for: a handshake or a head that never ends, an answer that nobody takes.

`limit` gives them to a server whose lifespan begins: uvicorn listens after it, with what its configuration then holds.
If the server has TLS, uvicorn then listens without it, and each connection makes its handshake when it is counted.
Each connection's application finds it in its scope (`of`), and with it a way to end it. Knows no route and no key.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from windlass_base.front.handshake import LateTls

from windlass.front.asgi import Application, Receive, Scope, Send

HEAD_TIMEOUT_S = 10.0
"""Seconds from a connection's start, a TLS handshake included, or a later request's first byte, to the head's end."""
MOST_HEADS = 1024
"""Connections whose head is awaited; beyond it the oldest ends. Far below the engine's 65,535 file descriptors."""
UNTAKEN_TIMEOUT_S = 60
"""Seconds that the kernel keeps bytes which the other side does not take."""
EXTENSION = "windlass.connection"

_awaited: dict[TimedProtocol, None] = {}  # insertion order: the oldest is first


def limit(config: Config) -> None:
    """Give the limits to a server that does not listen yet, unless it was told another protocol."""
    if config.http == "auto":
        config.http_protocol_class = partial(TimedProtocol, tls=config.ssl)  # type: ignore[assignment]
        config.ssl = None


@dataclass(frozen=True, slots=True)
class Connection:
    """What an application may know of a request's connection."""

    flow: Flow
    abort: Callable[[], None]
    """Ends it at once, unread bytes and all."""
    write: Send | None = None
    """The server's own way to the client, below all middleware."""


class Flow(Protocol):
    """uvicorn's own account of a connection."""

    @property
    def write_paused(self) -> bool:
        """Whether the client has so much unread that a write waits; otherwise a write returns at once."""


class _Unknown:
    """Of a server that gives no account: any write may wait."""

    write_paused = True


def of(scope: Scope) -> Connection:
    """The connection of a request; where the server gives none, one that nothing ends."""
    found = scope.get("extensions", {}).get(EXTENSION)
    return found if isinstance(found, Connection) else UNKNOWN


class TimedProtocol(LateTls, AutoHTTPProtocol):  # type: ignore[misc, valid-type] # uvicorn chooses it when imported
    """uvicorn's protocol with a time limit for handshakes, heads and bytes that are not taken."""

    def __init__(self, *words: object, tls: ssl.SSLContext | None = None, **more: object) -> None:
        """Nothing is awaited yet."""
        super().__init__(*words, **more)
        self._tls = tls
        self._head_timer: asyncio.TimerHandle | None = None
        self.app: Application = self._marking(self.app)

    def _marking(self, inner: Application) -> Application:
        async def marked(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("extensions", {})[EXTENSION] = Connection(self.flow, self.abort, send)
            await inner(scope, receive, send)

        return marked

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A head is awaited from now on, and before it a handshake."""
        super().connection_made(transport)
        if self.handshake is not None:
            return
        _limit_untaken(transport.get_extra_info("socket"))
        self._await_head()
        if self._tls is not None:
            self.begin_tls(self._tls)

    def data_received(self, data: bytes) -> None:
        """The head is here, or still awaited."""
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self or self._has_request():
            self._has_head()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._has_head()
        super().connection_lost(exc)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        if self._head_timer is not None:
            return
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.abort)
        _awaited[self] = None
        if len(_awaited) > MOST_HEADS:
            oldest = next(iter(_awaited))
            oldest._has_head()
            oldest.abort()

    def _has_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        _awaited.pop(self, None)


def _limit_untaken(connection: socket.socket | None) -> None:
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNTAKEN_TIMEOUT_S * 1000)


def _nothing() -> None:
    return


UNKNOWN = Connection(_Unknown(), _nothing)
