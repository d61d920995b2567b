"""What every request and every answer goes through: the prefix, the size of the body, where a change may come from.

An ASGI application around the other one. It answers refusals itself, so that no route can forget a check.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass_console.errors import ConsoleError, OriginError, TooLargeError, document_of

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
BODY_MAX = 256 << 10
# Longer bodies by the beginning of the route.
LONGER = (("/api/licenses/", 16 << 20),)
CHAT_MAX = 2 << 20


class Guard:
    """Checks in front of the application, headers behind it."""

    def __init__(self, app: ASGIApp, prefix: str = "", origins: Collection[str] = ()) -> None:
        self.inner, self._prefix, self._origins = app, prefix, frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        route = _route(scope["path"], self._prefix)
        answer = _with_headers(send, is_api=route.startswith("/api/"))
        if self._prefix and scope["path"] == self._prefix:
            await _redirect(answer, f"{self._prefix}/")
            return
        try:
            self._check(scope)
            body = await _body(receive, _most(route)) if scope["method"] not in SAFE else b""
        except ConsoleError as error:
            await _refuse(answer, error)
            return
        inner = {**scope, "path": route, "raw_path": route.encode(), "root_path": ""}
        await self.inner(inner, _replay(body, receive), answer)

    def _check(self, scope: Scope) -> None:
        """OriginError for what the console's own pages would not send."""
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        if headers.get(b"sec-fetch-site", "") == "cross-site" and _route(scope["path"], self._prefix) != "/":
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


def _route(path: str, prefix: str) -> str:
    """The path as the routes know it, whether or not the ingress has taken the prefix away."""
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


def _most(route: str) -> int:
    if route.startswith("/api/services/") and route.endswith("/chat"):
        return CHAT_MAX
    return next((most for start, most in LONGER if route.startswith(start)), BODY_MAX)


async def _body(receive: Receive, most: int) -> bytes:
    """The whole body; TooLargeError as soon as it is longer."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        if len(body) > most:
            raise TooLargeError(f"the request has more than {most >> 10} KiB; send less")
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then what comes from the connection."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return parts.pop() if parts else await receive()

    return next_message


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
    if isinstance(error, TooLargeError):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
