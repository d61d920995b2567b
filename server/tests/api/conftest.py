"""A tiny engine behind a real guard: what it got is kept, what it answers is the test's choice."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import httpx
import pytest
from windlass.api.guard import Guard
from windlass.front.settings import ApiSettings

SETTINGS = ApiSettings(served_names=("demo", "alias"), image_domains=("images.example.com", "*.cdn.example.com"))


@dataclass
class Engine:
    """An ASGI application that echoes; `answer` replaces the echo."""

    status: int = 200
    answer: bytes | None = None
    type: str = "application/json"
    hold: asyncio.Event | None = None
    fail: bool = False
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    running: int = 0
    most: int = 0

    async def __call__(self, scope, receive, send) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._serve(scope, receive, send)
        finally:
            self.running -= 1

    async def _serve(self, scope, receive, send) -> None:
        self.paths.append(scope["path"])
        self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
        self.bodies.append(await _whole(receive))
        if self.fail:
            raise RuntimeError("the engine broke")
        if self.hold:
            held, gone = asyncio.ensure_future(self.hold.wait()), asyncio.ensure_future(receive())
            await asyncio.wait({held, gone}, return_when=asyncio.FIRST_COMPLETED)
            held.cancel(), gone.cancel()
        content = self.bodies[-1] if self.answer is None else self.answer
        headers = [(b"content-type", self.type.encode()), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    @property
    def document(self) -> dict:
        """The last body."""
        return json.loads(self.bodies[-1])


async def _whole(receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    return body


@dataclass
class Api:
    """A client of the guard, with the engine behind it."""

    client: httpx.AsyncClient
    engine: Engine
    guard: Guard

    async def chat(self, document: dict | None = None, **more) -> httpx.Response:
        """One chat request."""
        return await self.client.post("/v1/chat/completions", json={"messages": []} | (document or {}), **more)


@pytest.fixture
async def api() -> AsyncIterator[Callable[..., Api]]:
    """`api(engine, settings, keys="a,b", app=…, start_key=…)` puts a guard in front of an engine."""
    clients: list[httpx.AsyncClient] = []

    def make(
        engine: Engine | None = None, settings: ApiSettings = SETTINGS, keys: str = "", app=None, start_key: str = ""
    ) -> Api:
        engine = engine or Engine()
        variables = {"WINDLASS_API": settings.to_json(), "WINDLASS_API_KEYS": keys, "WINDLASS_START_KEY": start_key}
        guard = Guard(engine, variables)

        async def shell(scope, receive, send) -> None:
            await guard({**scope, "app": app or SimpleNamespace()}, receive, send)

        client = httpx.AsyncClient(transport=httpx.ASGITransport(shell), base_url="http://api")
        clients.append(client)
        return Api(client, engine, guard)

    yield make
    for client in clients:
        await client.aclose()
