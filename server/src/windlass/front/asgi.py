"""The little of ASGI that the guard needs: reading headers and bodies, answering, and watching an answer pass by.

Knows no framework. Anything but an error passes through message by message, so that a stream stays a stream.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from windlass.front.refusal import Headers, Refusal

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
Reshape: TypeAlias = Callable[[int, bytes], tuple[int, bytes]]
"""Status and body of an error, as the client gets them."""

REQUEST_ID = b"x-request-id"
GOOD_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")
JSON = b"application/json"
BODY_HEADERS = (b"content-length", b"content-type")


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The first header of a name, in lower case; empty when there is none."""
    return next((value for key, value in headers if key.lower() == name), b"")


def credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The header Authorization; without it `X-API-Key` in its shape, as callers behind a proxy send their key.

    The API server's proxy keeps Authorization to itself, and clients of Anthropic's API send no other.
    """
    rows = list(headers)
    given = header(rows, b"authorization")
    key = header(rows, b"x-api-key")
    return given or (b"Bearer " + key if key else b"")


def replaced(headers: Iterable[tuple[bytes, bytes]], *new: tuple[bytes, bytes], drop: tuple[bytes, ...]) -> RawHeaders:
    """The headers with some dropped and new ones added."""
    return [(key, value) for key, value in headers if key.lower() not in drop] + list(new)


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The client's id when it is a sane one, else a new one."""
    said = header(headers, REQUEST_ID).decode("latin-1")
    return said if GOOD_ID.fullmatch(said) else uuid.uuid4().hex


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the request announces a body."""
    return header(headers, b"content-length") not in (b"", b"0") or bool(header(headers, b"transfer-encoding"))


def with_body(scope: Scope, body: bytes) -> Scope:
    """The same request with the headers of another body."""
    length = (b"content-length", str(len(body)).encode())
    headers = replaced(scope["headers"], length, drop=(b"content-length", b"transfer-encoding"))
    return {**scope, "headers": headers}


def replay(body: bytes, receive: Receive, gone: Callable[[], None]) -> Receive:
    """A `receive` that gives the body once and then listens; `gone` is called when the client goes away."""
    first = [body]

    async def again() -> Message:
        if first:
            return {"type": "http.request", "body": first.pop(), "more_body": False}
        message = await receive()
        if message["type"] == "http.disconnect":
            gone()
        return message

    return again


class Answer:
    """The way to the client: marks every answer with the request's id, and gives errors their shape.

    ASGI sends a head with the first bytes of its body; uvicorn sends it at once. An engine makes the head of a stream
    before its first token, within milliseconds. Proxies written in Go, Traefik among them, then cut some streams: they
    may still look for the end of the request's body, which such a proxy closes when it passes a head on
    (golang/go#40747). So the head waits here for the first bytes.
    """

    def __init__(self, send: Send, id_: str) -> None:
        """Nothing is sent yet."""
        self.send, self._id = send, id_.encode()
        self._head: Message | None = None
        self._held: Message | None = None
        self._body = bytearray()
        self.started = False
        self.reshape: Reshape | None = None
        self.headers: Headers = ()
        """What every answer to this request says besides."""

    def __call__(self, message: Message) -> Awaitable[None]:
        """Pass a message of the application on; an error's is held until it is complete."""
        if self.started:  # no coroutine of our own: a stream has a message for each token
            return self.send(message)
        return self._first(message)

    async def _first(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400 and self.reshape:
            self._held = message
        elif self._held is not None and message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._release(self._held, self.reshape)
        else:
            await self._pass(message)

    async def give(self, status: int, body: bytes, type_: bytes = JSON, headers: Headers = ()) -> None:
        """Answer by ourselves."""
        raw = [(b"content-type", type_), (b"content-length", str(len(body)).encode())]
        raw += [(key.encode(), value.encode()) for key, value in headers]
        await self._pass({"type": "http.response.start", "status": status, "headers": raw})
        await self._pass({"type": "http.response.body", "body": body, "more_body": False})

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        await self.give(refusal.status, refusal.body, headers=refusal.headers)

    async def _release(self, start: Message, reshape: Reshape | None) -> None:
        body = bytes(self._body)
        status, shaped = reshape(start["status"], body) if reshape else (start["status"], body)
        self._held = None
        if shaped != body:
            length = (b"content-length", str(len(shaped)).encode())
            headers = replaced(start.get("headers", ()), (b"content-type", JSON), length, drop=BODY_HEADERS)
            start = {**start, "status": status, "headers": headers}
        await self._pass(start)
        await self._pass({"type": "http.response.body", "body": shaped, "more_body": False})

    async def _pass(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            added = ((name.encode(), value.encode()) for name, value in self.headers)
            marked = replaced(message.get("headers", ()), (REQUEST_ID, self._id), *added, drop=(REQUEST_ID,))
            self._head = {**message, "headers": marked}
            return
        if self._head is not None:
            head, self._head, self.started = self._head, None, True
            await self.send(head)
        await self.send(message)
