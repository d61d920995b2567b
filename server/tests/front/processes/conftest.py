"""Several guards before engines of their own, joined by a real socket to one owner."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from windlass.api.guard import Guard
from windlass.front.processes.owner import Owner
from windlass.front.processes.wire import VARIABLE
from windlass.front.settings import ApiSettings

CHAT = "/v1/chat/completions"
START_KEY = "start-key"


class Engine:
    """Answers a chat with its usage once it may; the first requests of a test begin before they may end."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        try:
            await receive()
            await self.may_answer.wait()
        finally:
            self.running -= 1
        body = b'{"usage": {"prompt_tokens": 3, "completion_tokens": 4}}'
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


@dataclass
class Process:
    """One API process."""

    guard: Guard
    engine: Engine
    client: httpx.AsyncClient
    exits: list[int] = field(default_factory=list)
    """Exit codes: a process ends once."""

    async def chat(self, key: str = "", **more: Any) -> httpx.Response:
        """One chat."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await self.client.post(CHAT, json={"messages": []} | more, headers=headers)

    def begin(self, key: str = "") -> asyncio.Task[httpx.Response]:
        """A chat that goes on beside the test."""
        return asyncio.create_task(self.chat(key))

    async def page(self, path: str) -> str:
        """One of the guard's own pages."""
        return (await self.client.get(path)).text


@dataclass
class Server:
    """The owner and its processes."""

    owner: Owner
    processes: list[Process]
    start: Callable[[], Awaitable[Process]]


def key_file(folder: Path, *rows: dict[str, Any]) -> ApiSettings:
    """Settings with a file of such keys."""
    path = folder / "keys.json"
    path.write_text(json.dumps({"keys": list(rows)}))
    return ApiSettings(served_names=("demo",), processes=2, keys_file=str(path))


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """`serve(settings, keys=…, number=2, **variables)` starts an owner and API processes."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(
            settings: ApiSettings | None = None, keys: str = "", number: int = 2, **variables: str
        ) -> Server:
            settings = settings or ApiSettings(served_names=("demo",), processes=number)
            environment = {"WINDLASS_API": settings.to_json(), "WINDLASS_API_KEYS": keys, **variables}
            owner = await stack.enter_async_context(Owner.of(environment))
            processes: list[Process] = []

            async def start() -> Process:
                process = await _process({**environment, VARIABLE: owner.path})
                stack.push_async_callback(_end, process)
                processes.append(process)
                return process

            for _ in range(number):
                await start()
            return Server(owner, processes, start)

        yield make


async def _process(environment: dict[str, str]) -> Process:
    engine = Engine()
    guard = Guard(engine, environment)
    process = Process(guard, engine, httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://api"))
    guard.state.link._end = process.exits.append
    await guard.lifespan.start(None)
    return process


async def _end(process: Process) -> None:
    process.engine.may_answer.set()
    await process.guard.lifespan.stop()
    await process.client.aclose()
