"""One connection between an API process and the owner: a message is a line of JSON, a list that begins with its name.

The socket is a file in a folder that the server's user alone can enter, so only our own processes connect.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

VARIABLE = "WINDLASS_API_OWNER"
"""The owner's socket; no variable: one API process, which owns all itself."""
ENTER, LEAVE, BEGIN, END = "enter", "leave", "begin", "end"
RUN, WAIT, REFUSE, VERDICT = "run", "wait", "refuse", "verdict"
ASK, COUNT, COUNTED, SUMS = "ask", "count", "counted", "sums"
HELLO, STARTED, STOP, STEPS, ELSEWHERE, STALLED = "hello", "started", "stop", "steps", "elsewhere", "stalled"


class Lines(asyncio.Protocol):
    """Sends and receives messages; subclasses fill the table of what each does."""

    def __init__(self) -> None:
        """Not connected yet."""
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._does: dict[str, Callable[..., None]] = {}

    def heard(self, name: str, *words: Any) -> None:  # noqa: ANN401 - what JSON gives
        """A message came."""
        self._does[name](*words)

    def send(self, *message: Any) -> None:  # noqa: ANN401 - what JSON takes
        """Send a message; nothing once the connection is gone."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        self._transport = transport  # type: ignore[assignment]  # of a stream

    def data_received(self, data: bytes) -> None:
        """Take whole lines; the rest waits for more."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, *words = json.loads(line)
            self.heard(name, *words)
