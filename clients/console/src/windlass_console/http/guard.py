"""What every request and every answer goes through: the prefix, the size of the body, where a change may come from.

An ASGI application around the other one. It answers refusals itself, so that no route can forget a check.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass_console.errors import ConsoleError, OriginError, document_of
from windlass_console.http.bodies import Bodies, WhoOf, route_of

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
ALWAYS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
NO_STORE = (b"cache-control", b"no-store")
SAFE = ("GET", "HEAD")
CSRF_HEADER = b"x-windlass-console"


class Guard:
    """Checks in front of the application, headers behind it."""

    def __init__(self, app: ASGIApp, who_of: WhoOf, prefix: str = "", origins: Collection[str] = ()) -> None:
        self.inner, self.prefix, self._origins = app, prefix, frozenset(origins)
        self._bodies = Bodies(who_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        route = route_of(scope["path"], self.prefix)
        answer = _with_headers(send, is_api=route.startswith("/api/"))
        if self.prefix and scope["path"] == self.prefix:
            await _redirect(answer, f"{self.prefix}/")
            return
        async with AsyncExitStack() as reading:
            try:
                self._check(scope)
                body = b""
                if scope["method"] not in SAFE:
                    body = await reading.enter_async_context(self._bodies.read(scope, route, receive))
                receive = _replay(body, receive)
                del body
            except ConsoleError as error:
                await _refuse(answer, error)
                return
            except ClientDisconnect:  # a part of a body is no request
                return
            inner = {**scope, "path": route, "raw_path": route.encode(), "root_path": ""}
            await self.inner(inner, receive, _until_sent(answer, reading))

    def _check(self, scope: Scope) -> None:
        """OriginError for what the console's own pages would not send."""
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        site = headers.get(b"sec-fetch-site", "none")  # a neighbour of the same domain is another site here as well
        if site not in ("none", "same-origin") and route_of(scope["path"], self.prefix) != "/":
            raise OriginError("the request comes from another site; open the console itself")
        if scope["method"] in SAFE:
            return
        origin = headers.get(b"origin", "")
        if origin and origin not in self._origins and urlsplit(origin).netloc != headers.get(b"host", ""):
            raise OriginError(
                "the request comes from another origin than the console's host; open the console by its own address, "
                "or name the origin with --origin"
            )
        if headers.get(CSRF_HEADER) != "1":
            raise OriginError('the request lacks the header "X-Windlass-Console: 1", which the console\'s pages send')


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then what comes from the connection."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return parts.pop() if parts else await receive()

    return next_message


def _until_sent(send: Send, reading: AsyncExitStack) -> Send:
    """The body's place is free once the answer begins: a chat goes on for minutes after that."""

    async def sent(message: Message) -> None:
        await reading.aclose()
        await send(message)

    return sent


def _with_headers(send: Send, *, is_api: bool) -> Send:
    """Every answer has the headers, whoever made it."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
            more = (*ALWAYS, *((NO_STORE,) if is_api else ()))
            names = {name for name, _ in more}
            message = {**message, "headers": [*(one for one in headers if one[0].lower() not in names), *more]}
        await send(message)

    return sent


async def _redirect(send: Send, to: str) -> None:
    await send({"type": "http.response.start", "status": 307, "headers": [(b"location", to.encode())]})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, error: ConsoleError) -> None:
    body = json.dumps(document_of(error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))  # the body may not have been read to its end
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
