"""So many streams at once against a server, by a client that costs little: it counts pieces and parses none."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

END = b"0\r\n\r\n"
EVENT = b"data: {"
GOOD = b"HTTP/1.1 200 "


@dataclass(slots=True)
class Counted:
    """What came."""

    requests: int = 0
    events: int = 0


class _Stream(asyncio.Protocol):
    """One connection, and one answer after the other."""

    def __init__(self, request: bytes, counted: Counted) -> None:
        self._request, self._counted = request, counted
        self.left = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tail, self._is_good = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def ask(self, requests: int) -> None:
        """So many, one after the other."""
        self.left = requests
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._is_good:
            if not data.startswith(GOOD):
                self.done.set_exception(RuntimeError(data.decode(errors="replace")))
                self._transport.abort()
                return
            self._is_good = True
        seen = self._tail + data
        self._counted.events += seen.count(EVENT) - self._tail.count(EVENT)
        self._tail = seen[-(len(EVENT) - 1) :]
        if not seen.endswith(END):
            return
        self._tail, self._is_good = b"", False
        self._counted.requests += 1
        self.left -= 1
        if self.left:
            self._transport.write(self._request)
        else:
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


def request(path: str, body: dict[str, object], key: str) -> bytes:
    """A request's bytes."""
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    lines += [f"content-length: {len(content)}", f"authorization: Bearer {key}", "", ""]
    return "\r\n".join(lines).encode() + content


async def load(port: int, streams: int, each: int, asked: bytes) -> Counted:
    """`each` requests by each of so many connections."""
    counted, loop = Counted(), asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: _Stream(asked, counted), "127.0.0.1", port) for _ in range(streams)]
    for _, one in made:
        one.ask(each)
    try:
        await asyncio.gather(*(one.done for _, one in made))
    finally:
        for transport, _ in made:
            transport.close()
    return counted
