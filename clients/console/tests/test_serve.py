"""What the process holds a connection to before anybody has signed in, over a real socket."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest
import uvicorn
from windlass_base.front import connection
from windlass_base.front.peers import FrontLimits
from windlass_console import serve
from windlass_console.http.app import create_app
from windlass_console.http.bodies import BODY_MAX, LICENSE_MAX
from windlass_console.settings import Settings
from windlass_testbed.waiting import HANG_S, wait_until_async

HEAD = b"GET /healthz HTTP/1.1\r\nHost: console.test\r\n"
LIMITS = replace(serve.LIMITS, head_s=10 * HANG_S, connections=6, connections_per_peer=4)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Console:
    """A console that listens, with these limits."""

    def __init__(self, limits: FrontLimits) -> None:
        app = create_app(Settings(session_key=b"k" * 32), _nobodys_access)
        self._server = uvicorn.Server(serve.config(app, "127.0.0.1", 0, limits))
        self._task = asyncio.create_task(self._server.serve())

    async def open(self) -> Streams:
        await wait_until_async(lambda: self._server.started)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return await asyncio.open_connection("127.0.0.1", port)

    async def stop(self) -> None:
        self._server.should_exit = True
        await self._task


def _nobodys_access(*_: object) -> object:
    raise AssertionError("nobody has signed in")


@pytest.fixture
async def console(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Console]:
    """With `LIMITS`, or with those of an indirect parameter."""
    monkeypatch.setattr(connection, "SWEEP_S", 0.05)
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "disabled", True)
    one = Console(getattr(request, "param", LIMITS))
    yield one
    await one.stop()


async def answer_of(streams: Streams, *sent: bytes) -> bytes:
    """All that comes until the console closes; a connection that it cuts has no more."""
    reader, writer = streams
    try:
        for part in sent:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(HANG_S):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def document(answer: bytes) -> dict[str, object]:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def test_a_request_gets_an_answer(console):
    answer = await answer_of(await console.open(), HEAD + b"Connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"ok\n")


async def test_a_head_request_gets_no_body(console):
    """Its length is that of a GET."""
    answer = await answer_of(await console.open(), b"HEAD" + HEAD[3:] + b"Connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n")
    assert b"content-length: 3\r\n" in answer


@pytest.mark.parametrize("pieces", [1, 40], ids=["at once", "in pieces"])
async def test_a_head_that_is_too_long_is_refused(console, pieces):
    """Whether its end comes or not."""
    filler = b"X-A: " + b"a" * (40 << 10)
    size = len(filler) // pieces
    sent = [HEAD, *(filler[at : at + size] for at in range(0, len(filler), size)), b"\r\n\r\n"]
    answer = await answer_of(await console.open(), *([b"".join(sent)] if pieces == 1 else sent))
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert document(answer)["error"] == "the header is larger than 32 KiB"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD], ids=["nothing", "a line", "no end"])
@pytest.mark.parametrize("console", [replace(LIMITS, head_s=0.3)], ids=["0.3 s"], indirect=True)
async def test_a_head_that_does_not_end_is_cut(console, sent):
    """With longer limits the same connections stay, as the next test sees."""
    assert await answer_of(await console.open(), sent) == b""


async def test_a_peer_has_so_many_connections(console):
    """The fifth is closed before the others' heads are late; one more fits after another's end."""
    held = [await console.open() for _ in range(LIMITS.connections_per_peer)]
    assert await answer_of(await console.open(), HEAD + b"\r\n") == b""
    assert not any(reader.at_eof() for reader, _ in held)
    await close(held[0][1])
    while not (answer := await answer_of(await console.open(), HEAD + b"Connection: close\r\n\r\n")):
        pass  # the console has not seen yet that the other has gone
    assert answer.startswith(b"HTTP/1.1 200 ")
    for _, writer in held[1:]:
        await close(writer)


@pytest.mark.parametrize(
    ("path", "announced", "status", "reason"),
    [
        ("/api/plan", BODY_MAX + 1, 413, "TooLarge"),
        ("/api/licenses/a/b", LICENSE_MAX + 1, 413, "TooLarge"),
        ("/api/licenses/a/b", LICENSE_MAX, 401, "SignIn"),
        ("/api/services/a/b/chat", 1, 401, "SignIn"),
    ],
)
async def test_a_body_that_may_not_come_is_refused_by_its_head(console, path, announced, status, reason):
    """No byte of it was sent."""
    head = f"POST {path} HTTP/1.1\r\nHost: c\r\nX-Windlass-Console: 1\r\nContent-Length: {announced}\r\n\r\n"
    answer = await answer_of(await console.open(), head.encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert (document(answer)["reason"], document(answer)["fields"]) == (reason, [])
