"""A server of its own process for the kill test: the real guard, uvicorn, and an engine that uses what it is told to.

It listens on the socket that it inherits, so that its address outlives it.
Journals are short, so that kills meet folds.
"""

import asyncio
import json
import os
import socket
import sys

import uvicorn
from windlass.api.guard import Guard
from windlass.front.connections import TimedProtocol
from windlass.front.usage import journal

journal.JOURNAL_BYTES = 2048
STREAM = b"text/event-stream"


async def engine(scope, receive, send) -> None:
    """Answer with the usage that the body asks for, whole or as a stream."""
    if scope["type"] == "lifespan":
        for name in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{name}.complete"})
        return
    asked = json.loads((await receive())["body"])
    usage = {"prompt_tokens": asked["seed"], "completion_tokens": asked["max_tokens"]}
    last = json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode()
    is_stream = asked.get("stream", False)
    type_ = STREAM if is_stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", type_)]})
    if is_stream:
        for piece in (b'data: {"choices":[{"delta":{}}]}\n\n', b"data: " + last + b"\n\n", b"data: [DONE]\n\n"):
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        last = b""
    await send({"type": "http.response.body", "body": last})


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    config = uvicorn.Config(Guard(engine, os.environ), log_level="error", lifespan="on", http=TimedProtocol)
    uvicorn.Server(config).run(sockets=[listening])
