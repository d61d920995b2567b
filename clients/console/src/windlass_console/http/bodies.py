"""Bodies of requests: how long each may be, how many bytes all long ones may hold, and JSON within bounds.

`guard` reads here, before any route. A long body is read for somebody with a session or a token only.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope
from windlass_base.front.peers import Allowance, AllowanceOf
from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_console.errors import FullError, SignInError, SlowError, TooLargeError, UnreadableBodyError

BODY_MAX, CHAT_MAX, LICENSE_MAX = 256 << 10, 2 << 20, 16 << 20  # bytes
BODY_S, LONG_S = 15.0, 120.0  # for a body to come: 16 MiB at 1 Mbit/s
LATER_S = 5.0  # the connection ends so much later than the answer 408 is due
ANSWER_S = 300.0  # a call of the API server ends after 150 s
VALUES_MAX = 1 << 16  # of a JSON body; empty objects, the worst, take 5 MiB then
LONG_HELD_MAX = 32 << 20  # bytes of long bodies at a time, of sessions and of tokens in headers each
STREAMS = ("/watch", "/logs", "/chat")
WhoOf = Callable[[Scope], str]
"""The way of signing in that a request shows, `cookie` or `header`; empty for none."""


def route_of(path: str, prefix: str) -> str:
    """The path as the routes know it, whether or not the ingress has taken the prefix away."""
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


def most_of(route: str) -> int:
    """Bytes that a body may have."""
    if route.startswith("/api/services/") and route.endswith("/chat"):
        return CHAT_MAX
    return LICENSE_MAX if route.startswith("/api/licenses/") else BODY_MAX


def allowances(prefix: str) -> AllowanceOf:
    """What the connection holds requests to; `Bodies` counts what no header announces."""

    def allowance(path: bytes) -> Allowance:
        route = route_of(path.decode("latin-1"), prefix)
        most = most_of(route)
        is_stream = route.startswith("/api/services/") and route.endswith(STREAMS)
        return Allowance(most, _time_s(most) + LATER_S, math.inf if is_stream else ANSWER_S)

    return allowance


class Bodies:
    """Reads bodies; long ones of a bounded number of bytes together."""

    def __init__(self, who_of: WhoOf) -> None:
        self._who_of = who_of
        self._held: Counter[str] = Counter()

    @asynccontextmanager
    async def read(self, scope: Scope, route: str, receive: Receive) -> AsyncIterator[bytes]:
        """The whole body, whose bytes count until the block ends; a ConsoleError where it may not come."""
        most, announced = most_of(route), _announced(scope)
        if announced > most:
            raise _too_large(most)
        who = self._who_of(scope) if most > BODY_MAX else ""
        if most > BODY_MAX and not who:
            raise SignInError("you are not signed in, or your session has ended; sign in before you send a file")
        with ExitStack() as held:
            if announced > BODY_MAX:
                held.enter_context(self._room(who, announced))

            def grow() -> None:
                if most > BODY_MAX >= announced:
                    held.enter_context(self._room(who, most))

            try:
                async with asyncio.timeout(_time_s(most)):
                    body = await _whole(receive, most, grow)
            except TimeoutError as error:
                raise SlowError(f"the request did not come within {_time_s(most):.0f} s; send it again") from error
            if most == BODY_MAX:
                _check(body)
            yield body

    @contextmanager
    def _room(self, who: str, size: int) -> Iterator[None]:
        """Room for a long body. Peers with an invented token take none from those who have a session."""
        if self._held[who] + size > LONG_HELD_MAX:
            raise FullError("the console reads as many long requests as it can hold; send this one again in a moment")
        self._held[who] += size
        try:
            yield
        finally:
            self._held[who] -= size


async def _whole(receive: Receive, most: int, grow: Callable[[], None]) -> bytes:
    """The body; `grow` once when it turns out to be long, TooLargeError as soon as it has more than `most`."""
    body, is_long = bytearray(), False
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if len(body) > BODY_MAX and not is_long:
            is_long = True
            grow()
        if not message.get("more_body", False):
            return bytes(body)


def _check(body: bytes) -> None:
    """UnreadableBodyError for what no route could take: every short body is JSON."""
    try:
        if body:
            json_of(body, VALUES_MAX)
    except UnusableJsonError as error:
        raise UnreadableBodyError(f"the request's body cannot be read: {error}") from error


def _time_s(most: int) -> float:
    return LONG_S if most > BODY_MAX else BODY_S


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the request has more than {most >> 10} KiB; send less")


def _announced(scope: Scope) -> int:
    """The length that the header names; 0 for none, and for what is no number."""
    found = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"")
    return int(found) if found.isdigit() and len(found) < 19 else 0
