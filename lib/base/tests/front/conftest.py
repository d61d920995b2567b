"""A small application behind the front, over real sockets of this event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uvicorn
from windlass_base.front.connection import Front, guarded
from windlass_base.front.peers import Allowance, FrontLimits
from windlass_testbed.certificate import certify
from windlass_testbed.waiting import wait_until_async

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
COSTLY = b"/costly"


class Served:
    """The application: it answers `ok` and its scheme, to `/held` when the test lets it."""

    def __init__(self, limits: FrontLimits, tls: ssl.SSLContext | None) -> None:
        self.let = asyncio.Event()
        plain = Allowance(limits.body_bytes, limits.body_s, limits.answer_s)
        costly = Allowance(limits.body_bytes, limits.body_s, limits.answer_s, cost=3)
        self.front = Front(limits, lambda path: costly if path == COSTLY else plain, tls=tls)
        config = uvicorn.Config(
            self._answer,
            host="127.0.0.1",
            port=0,
            http=guarded(self.front),
            interface="asgi3",
            lifespan="off",
            log_config=None,
        )
        self.server = uvicorn.Server(config)
        self._clients: list[asyncio.StreamWriter] = []
        self._task = asyncio.create_task(self.server.serve())

    async def open(self, tls: ssl.SSLContext | None = None, source: str = "127.0.0.1") -> Streams:
        await wait_until_async(lambda: self.server.started)
        where = self.server.servers[0].sockets[0].getsockname()
        streams = await asyncio.open_connection(*where, ssl=tls, local_addr=(source, 0))
        self._clients.append(streams[1])
        return streams

    @staticmethod
    async def rest_of(streams: Streams) -> bytes:
        """Read until the server closes."""
        received = bytearray()
        with suppress(ConnectionError):
            while piece := await streams[0].read(65536):
                received += piece
        return bytes(received)

    async def stop(self) -> None:
        self.let.set()
        for client in self._clients:
            client.transport.abort()
        self.server.should_exit = True
        await self._task

    async def _answer(self, scope, receive, send) -> None:
        await receive()
        if scope["path"] == "/held":
            await self.let.wait()
        content = f"ok {scope['scheme']}\n".encode()
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Served]]:
    """`serve(limits, tls)` listens until the test ends."""
    all_served: list[Served] = []

    def start(limits: FrontLimits, tls: ssl.SSLContext | None = None) -> Served:
        all_served.append(Served(limits, tls))
        return all_served[-1]

    yield start
    for served in all_served:
        await served.stop()


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's context with a certificate of its own."""
    folder: Path = tmp_path_factory.mktemp("tls")
    certify(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


@pytest.fixture
def trusting() -> ssl.SSLContext:
    """A client's context that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
