"""Reads the token counts of an answer on its way to the client, and reports them before the last part is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from windlass.front.asgi import Message, Send, header
from windlass.front.usage import read
from windlass.front.usage.journal import Batch, recorded
from windlass.front.usage.read import DONE, FIELD, Tokens

EVENT = b"data: "
OVERLAP = 64 * 1024
"""Bytes that are kept of an answer in several parts: its usage field stands near its end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The usage of an answer below HTTP 400."""

    tokens: Tokens | None
    """None when the engine sent no count."""
    events: int = 0
    """Events of a stream; most have one token."""
    is_final: bool = True
    """Whether the count is the whole answer's; else it is one that a stream had before its end."""


class Meter:
    """An ASGI `send` between the engine and the client."""

    def __init__(self, send: Send, report: Callable[[Outcome], Batch | None], *, hides_usage: bool) -> None:
        """`report` gives what the answer's end waits for; `hides_usage` drops the usage event that we asked for."""
        self._send, self._report, self._hides_usage = send, report, hides_usage
        self._is_good = self._has_reported = False
        self.is_stream = False
        """Whether the answer is a stream of events."""
        self._tokens: Tokens | None = None
        self._is_final = False
        self.events = 0
        """Events of the stream so far."""
        self._tail = b""
        self._record: Batch | None = None

    def __call__(self, message: Message) -> Awaitable[None]:
        """Pass a message on; without a coroutine for messages of a stream, of which each token has one."""
        if self.is_stream and message.get("more_body"):
            data = message.get("body", b"")
            if FIELD not in data and DONE not in data:
                self.events += data.count(EVENT)
                return self._send(message)
        return self._watched(message)

    async def _watched(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_good = message["status"] < 400
            self.is_stream = self._is_good and _is_stream(message.get("headers", ()))
        elif self._is_good and message["type"] == "http.response.body":
            data, is_end = message.get("body", b""), not message.get("more_body", False)
            kept = self._part(data, is_end=is_end)
            if kept is not data:
                if not kept and not is_end:
                    return
                message = {**message, "body": kept}
            if self._record is not None:
                record, self._record = self._record, None
                await recorded(record)
        await self._send(message)

    def end(self) -> None:
        """Report what came, where the answer ends early because the client left."""
        if self._is_good:
            self._report_once()

    def _part(self, data: bytes, *, is_end: bool) -> bytes:
        if self.is_stream:
            return self._events(data, is_end=is_end)
        is_only = is_end and not self._tail
        self._tail = data if is_only else (self._tail + data[-OVERLAP:])[-OVERLAP:]
        if is_end:
            is_cut = not is_only and len(self._tail) == OVERLAP
            self._tokens, self._is_final = read.of_answer(self._tail, is_cut=is_cut), True
            self._report_once()
        return data

    def _events(self, data: bytes, *, is_end: bool) -> bytes:
        self.events += data.count(EVENT)
        found = read.of_events(data) if FIELD in data else None
        if found:
            self._tokens = found.tokens.most(self._tokens) if self._tokens else found.tokens
            self._is_final = self._is_final or found.is_last
        is_over = is_end or read.is_done(data)
        if is_over and self._tokens and self._tokens.out:
            self._is_final = True  # of a kind whose last event has no mark
        if is_over or (found and found.is_last):
            self._report_once()
        if found and self._hides_usage and read.NO_CHOICES in data:
            return read.without_usage_event(data)
        return data

    def _report_once(self) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._record = self._report(Outcome(self._tokens, self.events, self._is_final))


def _is_stream(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return header(headers, b"content-type").startswith(b"text/event-stream")
