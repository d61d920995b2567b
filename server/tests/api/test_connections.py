"""Connections of the serving API that stay silent, over real sockets: with TLS, and without."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn
from windlass.front import connections
from windlass_testbed.certificate import certify
from windlass_testbed.simulated_time import passed_s
from windlass_testbed.waiting import wait_until_async

pytestmark = pytest.mark.simulated_time
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a client's first message, which announces 512."""
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
SLACK_S = 1.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Api:
    """An application that answers its scheme, started as the engine starts its own."""

    def __init__(self, tls: Path | None) -> None:
        files = {"ssl_certfile": tls / "tls.crt", "ssl_keyfile": tls / "tls.key"} if tls else {}
        config = uvicorn.Config(
            self._answer, host="127.0.0.1", port=0, interface="asgi3", lifespan="on", log_config=None, **files
        )
        config.load()
        self.server = uvicorn.Server(config)
        self._clients: list[asyncio.StreamWriter] = []
        self._task = asyncio.create_task(self.server.serve())

    async def open(self, tls: ssl.SSLContext | None = None) -> Streams:
        await wait_until_async(lambda: self.server.started)
        streams = await asyncio.open_connection(*self.server.servers[0].sockets[0].getsockname(), ssl=tls)
        self._clients.append(streams[1])
        return streams

    async def stop(self) -> None:
        for client in self._clients:
            client.transport.abort()
        self.server.should_exit = True
        await self._task

    async def _answer(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            connections.limit(self.server.config)
            await send({"type": "lifespan.startup.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f"ok {scope['scheme']}".encode()})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certify(folder)
    return folder


@pytest.fixture(params=["plain", "tls"])
async def api(request: pytest.FixtureRequest, certificate: Path) -> AsyncIterator[Api]:
    """Listening, with the limits."""
    one = Api(certificate if request.param == "tls" else None)
    yield one
    await one.stop()


def client_of(api: Api) -> ssl.SSLContext | None:
    """A client's context that takes any certificate, where the API has one."""
    if not api.server.config.is_ssl:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def ask(api: Api) -> bytes:
    """The answer to a client that does not stay silent."""
    reader, writer = await api.open(client_of(api))
    writer.write(REQUEST)
    return await reader.read()


async def test_a_request_is_answered(api):
    """The application knows the scheme."""
    assert (b"ok https" if client_of(api) else b"ok http") in await ask(api)


@pytest.mark.parametrize("sent", [b"", HELLO], ids=["nothing", "half a hello"])
async def test_a_silent_connection_ends(api, sent):
    """A handshake has no time beside that of the head."""
    reader, writer = await api.open()
    begun_s = passed_s()
    if client_of(api):
        writer.write(sent)
    assert await reader.read() == b""
    passed = passed_s() - begun_s
    assert connections.HEAD_TIMEOUT_S - SLACK_S <= passed <= connections.HEAD_TIMEOUT_S + SLACK_S  # clock: simulated


async def test_of_too_many_the_oldest_end(api, monkeypatch):
    """And the newest is answered."""
    monkeypatch.setattr(connections, "MOST_HEADS", 3)
    held = [await api.open() for _ in range(5)]
    assert b"200 OK" in await ask(api)
    ended = [reader.at_eof() for reader, _ in held]
    assert ended == [True, True, True, False, False]


async def test_the_process_ends_without_waiting_for_silent_connections(api):
    """Its pod would be killed in the middle of other work."""
    await api.open()
    await wait_until_async(lambda: api.server.server_state.connections)
    begun_s = passed_s()
    await api.stop()
    assert passed_s() - begun_s < connections.HEAD_TIMEOUT_S / 2  # clock: simulated


def test_a_protocol_that_was_chosen_stays():
    """An engine that names a protocol has a reason."""
    config = uvicorn.Config(None, http="h11")
    config.load()
    chosen = config.http_protocol_class
    connections.limit(config)
    assert config.http_protocol_class is chosen
