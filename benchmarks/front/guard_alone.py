"""What the guard adds to a piece of a stream and to a request, without a server around it: the least of many rounds.

    PYTHONPATH=server/src:lib/base/src:lib/sizing/src python benchmarks/front/guard_alone.py [-o json] [--profile]

An application that streams pieces as vLLM does is called with the guard before it and without, on one event loop. The
connection takes every piece, as that of a client who reads; --slow says that each write may wait. The guard has a key
with limits and writes records of usage. --profile prints where the time of a request goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from run import KEY, variables
from windlass.api.guard import Guard
from windlass.front import connections

MANY, FEW, ROUNDS = 500, 20, 60
PIECE = (
    b'data: {"id":"chatcmpl-8b1f","object":"chat.completion.chunk","created":1764090000,"model":"demo",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
USAGE = (
    b'data: {"id":"chatcmpl-8b1f","object":"chat.completion.chunk","created":1764090000,"model":"demo","choices":[],'
    b'"usage":{"prompt_tokens":21,"total_tokens":149,"completion_tokens":128}}\n\n'
)
BODY = json.dumps({"model": "demo", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}).encode()
HEADERS = [
    (b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY)),
    (b"authorization", b"Bearer " + KEY.encode()),
]  # fmt: skip
App = Callable[..., Awaitable[None]]


def streaming(pieces: int) -> App:
    """An application that answers with so many pieces."""

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            return
        await receive()
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for _ in range(pieces):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
        await send({"type": "http.response.body", "body": USAGE, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


class Flow:
    """A connection that takes everything, or one of which nothing is known."""

    def __init__(self, *, write_paused: bool) -> None:
        self.write_paused = write_paused


async def request(app: App, flow: Flow) -> None:
    """One request to its end."""
    extensions = {connections.EXTENSION: connections.Connection(flow, lambda: None)}
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions"}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    async def send(_: Any) -> None:  # noqa: ANN401
        return

    await app({**scope, "headers": HEADERS, "extensions": extensions}, receive, send)


async def started(app: App) -> App:
    """After its start, which limits wait for."""

    async def nothing(*_: Any) -> None:  # noqa: ANN401
        return

    await app({"type": "lifespan"}, nothing, nothing)
    return app


async def least_us(app: App, flow: Flow) -> float:
    """Processor time of a request, the least of all rounds."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time_ns()
        await request(app, flow)
        least = min(least, time.thread_time_ns() - began)
    return least / 1000


async def measured(environment: dict[str, str], flow: Flow) -> dict[str, float]:
    """Microseconds that the guard adds."""
    spent = {}
    for name, wrapped in (("bare", lambda app: app), ("guard", lambda app: Guard(app, environment))):
        many, few = [await least_us(await started(wrapped(streaming(pieces))), flow) for pieces in (MANY, FEW)]
        token = (many - few) / (MANY - FEW)
        spent[name] = token, few - FEW * token
    more = [with_ - without for with_, without in zip(spent["guard"], spent["bare"], strict=True)]
    return {"piece_us": round(more[0], 3), "request_us": round(more[1], 1)}


async def profiled(environment: dict[str, str], flow: Flow) -> None:
    """Where the time of a request of few pieces goes."""
    guard, profiler = await started(Guard(streaming(FEW), environment)), cProfile.Profile()
    await request(guard, flow)
    profiler.enable()
    for _ in range(1000):
        await request(guard, flow)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("-o", choices=["json"])
    wanted = parser.parse_args()
    flow = Flow(write_paused=wanted.slow)
    with tempfile.TemporaryDirectory() as folder:
        environment = variables(Path(), Path(folder))
        if wanted.profile:
            asyncio.run(profiled(environment, flow))
            return
        found = asyncio.run(measured(environment, flow))
    words = f"the guard adds {found['piece_us']} µs a piece, {found['request_us']} µs a request"
    print(json.dumps(found) if wanted.o else words)


if __name__ == "__main__":
    main()
