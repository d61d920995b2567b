"""Watches an answer pass by and reports what it used, before the client gets the last of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from windlass.api.asgi import Answer, Message, Send, header
from windlass.usage import read
from windlass.usage.read import DONE, FIELD, Tokens

EVENT = b"data: "
OVERLAP = 4096
"""Bytes of an answer's earlier piece that are looked at again: a usage is shorter."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a good answer used."""

    tokens: Tokens | None
    """None when the engine did not say."""
    events: int = 0
    """Events of a stream; most have one token."""


class Meter:
    """A `send` between the engine and the client."""

    def __init__(self, send: Answer, report: Callable[[Outcome], None], *, hides_usage: bool) -> None:
        """`hides_usage` drops the event that only we asked for."""
        self._send: Send = send
        self._answer, self._report, self._hides_usage = send, report, hides_usage
        self._is_good = self._is_stream = self._has_reported = False
        self._tokens: Tokens | None = None
        self._events = 0
        self._tail = b""

    def __call__(self, message: Message) -> Awaitable[None]:
        """Pass a message on. No coroutine of its own: a stream has a message for each token."""
        if self._is_stream and message.get("more_body"):
            data = message.get("body", b"")
            if FIELD not in data and DONE not in data:
                self._events += data.count(EVENT)
                return self._send(message)
        return self._watched(message)

    async def _watched(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_good = message["status"] < 400
            self._is_stream = self._is_good and _is_stream(message.get("headers", ()))
        elif self._is_good and message["type"] == "http.response.body":
            data, is_end = message.get("body", b""), not message.get("more_body", False)
            kept = self._look(data, is_end=is_end)
            if kept is not data:
                if not kept and not is_end:
                    return
                message = {**message, "body": kept}
        await self._send(message)
        self._send = self._answer.rest

    def end(self) -> None:
        """There is no more of the answer; the client may have left."""
        if self._is_good:
            self._tell()

    def _look(self, data: bytes, *, is_end: bool) -> bytes:
        found = None
        if self._is_stream:
            self._events += data.count(EVENT)
            found = read.find(data)
        elif data:
            found = read.find(self._tail + data)
            self._tail = b"" if is_end else data[-OVERLAP:]
        if found:
            self._tokens = found.most(self._tokens) if self._tokens else found
        if is_end or (found and self._is_stream and read.is_last(data)) or (self._is_stream and DONE in data):
            self._tell()
        if found and self._hides_usage and read.NO_CHOICES in data:
            return read.without_usage_event(data)
        return data

    def _tell(self) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._report(Outcome(self._tokens, self._events))


def _is_stream(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return header(headers, b"content-type").startswith(b"text/event-stream")
