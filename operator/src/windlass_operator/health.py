"""`/healthz` answers while the event loop turns, `/readyz` while the watches live and the queue is young.

`judge` is pure; `serve` is a few lines of HTTP on the event loop itself: a loop that hangs does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

QUEUE_OLD_S = 30.0
WATCH_PATIENCE_S = 30.0
REQUEST_S = 5.0
HEAD_MAX = 8192


@dataclass(frozen=True, slots=True)
class Health:
    """What is asked: the watches that do not live, by kind with the reason, and the age of the oldest due key."""

    watches: Mapping[str, str]
    oldest_s: float


def judge(health: Health) -> list[str]:
    """Why the operator is not ready; nothing when it is."""
    wrong = [f"watch of {kind}: {why}" for kind, why in sorted(health.watches.items())]
    if health.oldest_s > QUEUE_OLD_S:
        wrong.append(f"queue: an LLMService has waited {health.oldest_s:.0f} s for its reconcile")
    return wrong


@asynccontextmanager
async def serve(port: int, look: Callable[[], Health]) -> AsyncIterator[None]:
    """Answer both paths on this port; 0 serves nothing."""
    if not port:
        yield
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, look))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer, port=port, limit=HEAD_MAX):
        yield


def _answer(head: bytes, look: Callable[[], Health]) -> bytes:
    path = head.split(b" ", 2)[1].split(b"?")[0] if head.count(b" ") >= 2 else b""
    if path == b"/healthz":
        return _response("200 OK", ["ok"])
    if path == b"/readyz":
        wrong = judge(look())
        return _response("503 Service Unavailable", wrong) if wrong else _response("200 OK", ["ok"])
    return _response("404 Not Found", ["ask /healthz or /readyz"])


def _response(status: str, lines: Iterable[str]) -> bytes:
    body = "".join(f"{line}\n" for line in lines).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
