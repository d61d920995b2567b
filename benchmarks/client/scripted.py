"""A server without a model, for measuring clients: streams as many tokens as a request wants, at scripted times.

    python benchmarks/client/scripted.py PORT [--ttft-ms 0] [--itl-ms 0]

Without delays it answers at once, so that all time that a client reports is its own and this server's. With delays each
token has its time from the moment at which the request was read; a token that is late moves no later one. Both OpenAI
routes stream; `/v1/models` and `/metrics` are there. It is for clients that can be trusted: it checks nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass
from functools import partial
from typing import Any

TOKENS_DEFAULT = 16
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
STREAM, JSON, TEXT = b"text/event-stream", b"application/json", b"text/plain"


@dataclass(frozen=True, slots=True)
class Script:
    """Seconds to the first token, and between two."""

    ttft_s: float
    itl_s: float


def chunk(body: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(body), body)


def event(content: dict[str, Any]) -> bytes:
    """One event of a stream as a piece."""
    return chunk(b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n")


PIECES = {
    "/v1/completions": event({"id": "x", "object": "text_completion", "choices": [{"index": 0, "text": " a"}]}),
    "/v1/chat/completions": event(
        {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": " a"}}]}
    ),
}


class Server(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, script: Script) -> None:
        self._script, self._seen = script, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        self._seen += data
        head, found, body = self._seen.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)
        if len(body) < length:
            return
        self._seen = body[length:]
        self._answer(lines[0].split()[1], json.loads(body[:length]) if length else {})

    def _answer(self, path: str, asked: dict[str, Any]) -> None:
        piece = PIECES.get(path)
        if piece is None:
            body = b'{"data":[{"id":"scripted"}]}' if path == "/v1/models" else b"scripted_up 1\n"
            head = HEAD % (JSON if path == "/v1/models" else TEXT)
            self._transport.write(head + chunk(body) + b"0\r\n\r\n")
            return
        tokens = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or TOKENS_DEFAULT)
        self._transport.write(HEAD % STREAM)
        loop = asyncio.get_running_loop()
        now, script = loop.time(), self._script
        if not script.ttft_s and not script.itl_s:
            for _ in range(tokens):  # an event a write, as an engine sends them
                self._transport.write(piece)
            self._end(tokens)
            return
        for number in range(tokens - 1):
            loop.call_at(now + script.ttft_s + number * script.itl_s, self._transport.write, piece)
        # One call for the last token and the end: calls of the same time come in no order.
        loop.call_at(now + script.ttft_s + (tokens - 1) * script.itl_s, self._last, piece, tokens)

    def _last(self, piece: bytes, tokens: int) -> None:
        self._transport.write(piece)
        self._end(tokens)

    def _end(self, tokens: int) -> None:
        usage = event({"id": "x", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}})
        self._transport.write(usage + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


async def serve(port: int, script: Script) -> None:
    """Until it is told to end."""
    server = await asyncio.get_running_loop().create_server(partial(Server, script), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--ttft-ms", type=float, default=0.0)
    parser.add_argument("--itl-ms", type=float, default=0.0)
    wanted = parser.parse_args()
    asyncio.run(serve(wanted.port, Script(wanted.ttft_ms / 1000, wanted.itl_ms / 1000)))


if __name__ == "__main__":
    main()
