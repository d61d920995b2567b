"""A server process with the real guard before an application that has the engine's routes and nothing behind them.

`python tests/attack/guard/engine_like.py` prints its address and serves until its standard input ends. The router is
Starlette's, as the engine's is, so a path that passes the guard is matched as the engine would match it. A POST reads
its body as the engine does; `{"pieces": n}` is answered by n pieces of 64 KiB. With TLS_DIR, a folder with tls.crt and
tls.key, it speaks HTTPS.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from windlass.api import routes
from windlass.api.guard import Guard

PIECE = b"x" * 65536
HANDS = ("/", "/chat", "/windlass/facts", "/windlass/metrics")


def rows() -> dict[str, set[str]]:
    """Every path of the guard's table with the methods that an engine would take."""
    found: dict[str, set[str]] = {}
    for row in getattr(routes, "ROWS", routes.ROUTES.values()):
        found.setdefault(row.path, set()).update(getattr(row, "methods", ("POST",)))
    return found | {path: {"POST"} for path in getattr(routes, "CLOSED", ())} | {"/health": {"GET", "HEAD"}}


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield PIECE


async def answer(request: Request) -> Response:
    """Say which route was reached, with what; name a model where models are listed."""
    if request.scope["path"] == "/v1/models":
        return JSONResponse({"object": "list", "data": [{"id": "demo"}]})
    raw = await request.body()
    document = json.loads(raw) if raw.strip() and request.headers.get("content-type") == "application/json" else None
    if isinstance(document, dict) and document.get("pieces"):
        return StreamingResponse(pieces(document["pieces"]), media_type="text/event-stream")
    return JSONResponse({"reached": request.scope["route"].path, "bytes": len(raw)})


def application() -> Starlette:
    """The engine's routes behind the guard."""
    paths = [Route(path, answer, methods=sorted(methods)) for path, methods in rows().items()]
    return Starlette(routes=paths, middleware=[Middleware(Guard)])


def main() -> None:
    """Serve until standard input ends."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(2048)
        app = application()
        tls = os.environ.get("TLS_DIR")
        files = {"ssl_certfile": f"{tls}/tls.crt", "ssl_keyfile": f"{tls}/tls.key"} if tls else {}
        config = uvicorn.Config(app, log_level="error", lifespan="on", **files)
        server = app.state.server = uvicorn.Server(config)  # as the engine does

        def stop() -> None:
            sys.stdin.read()
            server.should_exit = True

        threading.Thread(target=stop, daemon=True).start()
        print(f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
