"""Bodies: who may send a long one, how many bytes of them are held, and bodies that stop on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from windlass_console.http import bodies
from windlass_console.http.bodies import BODY_MAX, LICENSE_MAX, LONG_HELD_MAX, allowances
from windlass_console.http.guard import Guard
from windlass_testbed.waiting import wait_until_async

UPLOAD, CHAT = "/api/licenses/kube-system/license", "/api/services/team-a/qwen/chat"


class Inner:
    """An application that holds its answers back until `go`."""

    def __init__(self) -> None:
        self.bodies: list[int] = []
        self.go = asyncio.Event()

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        self.bodies.append(len((await receive())["body"]))
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Peer:
    """One who sends a request in pieces, and counts those that were taken."""

    def __init__(self, guard: Guard) -> None:
        self._guard, self.taken, self.status = guard, 0, 0

    async def post(self, path: str, *pieces: bytes | None, who: str = "cookie", announced: int = 0) -> int:
        """None is the end of the connection; without more pieces the peer waits for ever."""
        left = list(pieces)
        headers = [(b"x-windlass-console", b"1"), (b"who", who.encode())]
        if announced:
            headers.append((b"content-length", str(announced).encode()))

        async def receive() -> Message:
            if not left:
                await asyncio.Event().wait()
            self.taken += 1
            piece = left.pop(0)
            if piece is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": piece != b""}

        async def send(message: Message) -> None:
            self.status = message.get("status", self.status)

        await self._guard({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
        return self.status


def who_of(scope: Scope) -> str:
    return next(value.decode() for name, value in scope["headers"] if name == b"who")


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def guard(inner: Inner) -> Guard:
    return Guard(inner, who_of)


@pytest.mark.parametrize("path", [UPLOAD, CHAT])
async def test_nothing_of_a_long_body_is_read_for_nobody(guard, inner, path):
    peer = Peer(guard)
    assert await peer.post(path, b"x" * BODY_MAX, b"", who="") == 401
    assert (peer.taken, inner.bodies) == (0, [])


@pytest.mark.parametrize(("path", "most"), [(UPLOAD, LICENSE_MAX), ("/api/plan", BODY_MAX)])
async def test_a_body_that_announces_too_much_is_not_read(guard, inner, path, most):
    peer = Peer(guard)
    assert await peer.post(path, b"x", announced=most + 1) == 413
    assert (peer.taken, inner.bodies) == (0, [])


async def test_long_bodies_have_a_number_of_bytes_together(guard, inner):
    """Counted or announced; a short one goes on, and so does a session while tokens in headers have taken theirs."""
    long, end = b"x" * (BODY_MAX + 1), b""
    holders = LONG_HELD_MAX // LICENSE_MAX
    held = [asyncio.create_task(Peer(guard).post(UPLOAD, long, end, who="header")) for _ in range(holders)]
    await wait_until_async(lambda: len(inner.bodies) == holders)
    assert await Peer(guard).post(UPLOAD, long, end, who="header") == 503
    assert await Peer(guard).post(UPLOAD, who="header", announced=LICENSE_MAX) == 503
    held.append(asyncio.create_task(Peer(guard).post(UPLOAD, long, end)))
    held.append(asyncio.create_task(Peer(guard).post(CHAT, b"{}", end, who="header")))
    await wait_until_async(lambda: len(inner.bodies) == holders + 2)
    inner.go.set()
    assert await asyncio.gather(*held) == [200] * len(held)
    assert await Peer(guard).post(UPLOAD, long, end, who="header") == 200


async def test_a_body_that_breaks_off_runs_no_route_and_gives_its_room_back(guard, inner):
    inner.go.set()
    for _ in range(5):
        assert await Peer(guard).post(UPLOAD, b"x" * (BODY_MAX + 1), None) == 0
        assert await Peer(guard).post("/api/plan", b"{}", None) == 0
    assert inner.bodies == []
    assert await Peer(guard).post(UPLOAD, b"x" * (BODY_MAX + 1), b"") == 200


async def test_a_body_that_does_not_come_ends(guard, inner, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    monkeypatch.setattr(bodies, "LONG_S", 0.1)
    answers: list[Awaitable[Any]] = [Peer(guard).post(path, b"{") for path in (UPLOAD, CHAT, "/api/plan")]
    assert await asyncio.gather(*answers) == [408, 408, 408]
    assert inner.bodies == []


def test_a_connection_ends_after_the_answer_that_says_why():
    """With and without the prefix; only streams have no end."""
    of = allowances("/console")
    for path in (UPLOAD, CHAT, "/api/plan"):
        assert of(path.encode()) == of(f"/console{path}".encode())
    assert of(UPLOAD.encode()).body_s > bodies.LONG_S > of(b"/api/plan").body_s > bodies.BODY_S
    streams = ("/api/services/watch", "/api/services/a/b/watch", "/api/services/a/b/logs", CHAT)
    endless = float("inf")
    assert [of(path.encode()).answer_s for path in streams] == [endless] * 4
    assert all(of(path).answer_s < endless for path in (b"/", b"/api/services", b"/logs", b"/api/capacity/logs"))
