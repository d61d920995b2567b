"""What stands in front of the application: path, key, size, place and body, in this order, before anything is parsed.

The steps are those of the vLLM image's guard and its code (`windlass.api`); this module says which paths are open, what
a body may hold, and how a refusal looks here. Pure ASGI, the outermost of the application.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from windlass.front import connections, paths, scan
from windlass.front.asgi import (
    Answer,
    Application,
    Receive,
    Scope,
    Send,
    credential,
    has_body,
    replay,
    request_id,
    with_body,
)
from windlass.front.budget import Budget
from windlass.front.gate import Gate, in_turn
from windlass.front.intake import Gone, Hold, Intake
from windlass.front.keys import EVERYONE, KeyRing
from windlass.front.outbox import Outbox, Reader, Stock
from windlass.front.refusal import Refusal
from windlass.front.scan import JsonLimits

from windlass_deepspeed.api import bodies
from windlass_deepspeed.errors import RequestError

OPEN = frozenset({"/health", "/metrics", "/windlass/metrics"})
"""Answered without a key, for GET and HEAD."""
BODY_BYTES = 4 * 1024**2
"""Bytes: a million tokens of text. Nothing here takes images or sound."""
BODIES_BYTES = 16 * BODY_BYTES
JSON_LIMITS = JsonLimits(text_bytes=BODY_BYTES, values=131_072, depth=16)
WAITING = 512
"""Requests that wait for a place, as many as in the vLLM image."""


class Front:
    """ASGI middleware with the keys and as many places as the settings say."""

    def __init__(self, app: Application, api_keys: tuple[str, ...], concurrency: int) -> None:
        """All places are free."""
        self._app = app
        self._keys = KeyRing(",".join(api_keys), None)
        self._gate = Gate(concurrency, WAITING)
        self._bodies, self._stock = Budget(BODIES_BYTES), Stock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": "there is no websocket here"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        outbox = Outbox(send, self._stock, Reader(connection=connections.of(scope)))
        answer = Answer(outbox, request_id(scope["headers"]))
        try:
            with suppress(Gone):
                paths.check(scope["path"], scope.get("raw_path") or b"")
                tidied = {**scope, "path": paths.tidy(scope["path"])}
                who = self._admit(tidied)
                outbox.reader = Reader(who, self._keys.several, outbox.reader.connection)
                await self._serve(tidied, receive, who, answer)
        except Refusal as refusal:
            body = json.dumps(bodies.error(RequestError(refusal.message, status=refusal.status))).encode()
            await answer.give(refusal.status, body, headers=refusal.headers)
        finally:
            await outbox.close()

    def _admit(self, scope: Scope) -> str:
        if scope["path"] in OPEN and scope["method"] in ("GET", "HEAD"):
            return EVERYONE
        return self._keys.admit(credential(scope["headers"]))

    async def _serve(self, scope: Scope, receive: Receive, who: str, answer: Answer) -> None:
        if scope["method"] != "POST" and not has_body(scope["headers"]):
            await self._app(scope, receive, answer)
            return
        shared = self._keys.several
        hold = Hold(self._bodies, who, shared=shared)
        try:
            intake = Intake(scope, receive, BODY_BYTES, hold)
            enter = partial(self._gate.enter, who, shared=shared)
            await in_turn(
                enter, intake, receive, partial(_measured, intake), partial(self._pass, scope, receive, answer)
            )
        finally:
            hold.release()

    async def _pass(self, scope: Scope, receive: Receive, answer: Answer, raw: bytes, gone: Callable[[], None]) -> None:
        await self._app(with_body(scope, raw), replay(raw, receive, gone), answer)


async def _measured(intake: Intake) -> bytes:
    raw = await intake.read()
    scan.check(raw, JSON_LIMITS)
    return raw
