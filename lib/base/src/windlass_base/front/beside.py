"""A server on the event loop of a program that does something else: a few small answers behind the front's limits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from windlass_base.front.connection import Front, guarded
from windlass_base.front.peers import FrontLimits

SMALL = FrontLimits(
    connections=64,
    connections_per_peer=8,
    requests_per_s=10.0,
    requests_at_once=40.0,
    answer_s=10.0,
    idle_s=10.0,
    head_bytes=8 * 1024,
    body_bytes=0,
)
"""For probes and scrapers, which ask every few seconds."""
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, status and type of the answer of a path."""

    text: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Paths = Mapping[str, Callable[[], Answer]]
"""The answers to GET by path. Each is made on the event loop, so it is made quickly."""


@asynccontextmanager
async def serving(port: int, paths: Paths) -> AsyncIterator[None]:
    """Serve on all addresses, within SMALL, until left; OSError when the port is taken."""
    front, state = Front(SMALL), ServerState()
    way = guarded(front)
    config = Config(_application(paths), http=way, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    protocol = partial(way, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(protocol, sock=_listening(port), backlog=BACKLOG)
    try:
        yield
    finally:
        server.close()
        for one in tuple(front.connections):
            one.leave()


def _listening(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _application(paths: Paths) -> Callable[..., Any]:
    async def application(scope: Mapping[str, Any], _receive: object, send: Callable[..., Any]) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            answer = Answer("only GET is answered here\n", 405)
        elif (make := paths.get(scope["path"])) is None:
            answer = Answer(f"here are {', '.join(paths)}\n", 404)
        else:
            answer = make()
        body = answer.text.encode()
        head = [(b"content-type", answer.content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    return application
