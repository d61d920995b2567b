"""One replica for `limits.py`: the real guard and uvicorn before a scripted engine, on the socket that it inherits.

The engine takes `seconds` for an answer that uses as many tokens as the body asks for, and says when it began and
ended by the machine's clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time

import uvicorn
from windlass.api.guard import Guard
from windlass.front.asgi import Receive, Scope, Send
from windlass.front.connections import TimedProtocol


async def engine(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    if scope["type"] == "lifespan":
        for name in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{name}.complete"})
        return
    asked = json.loads((await receive())["body"])
    began = time.monotonic()
    await asyncio.sleep(float(asked["user"]))
    usage = {"prompt_tokens": asked["seed"], "completion_tokens": asked["max_tokens"]}
    body = {"choices": [], "usage": usage, "began": began, "ended": time.monotonic()}
    type_ = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": 200, "headers": [type_]})
    await send({"type": "http.response.body", "body": json.dumps(body, separators=(",", ":")).encode()})


if __name__ == "__main__":
    config = uvicorn.Config(Guard(engine, os.environ), log_level="error", lifespan="on", http=TimedProtocol)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
