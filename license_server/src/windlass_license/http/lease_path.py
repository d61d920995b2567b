"""`POST /v1/leases` as a bare ASGI application: every pod of a cluster asks here, again and again.

The web framework's routing, middleware and validation would cost several times what the answer itself does, so it is
passed by; its router knows the path for the wrong methods, and `description` for the OpenAPI document.
"""

import json
import time
from datetime import UTC, datetime

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send
from windlass_base.front.peers import FrontLimits

from windlass_license.cluster.callers import Callers
from windlass_license.cluster.identity import Caller
from windlass_license.election.activation import Activation
from windlass_license.errors import NotNowError, UnknownCallerError
from windlass_license.http.metrics import Metrics
from windlass_license.http.wire import BadRequestError, answer_json, parse_lease, statement
from windlass_license.rules.model import State

PATH = "/v1/leases"
RETRY_AFTER_S = 2
BODY_MAX_BYTES = FrontLimits().body_bytes
_Answer = tuple[int, bytes]


class TooLargeError(Exception):
    """The body is larger than any sensible request."""


class LeasePath:
    """Grants, renews or refuses."""

    def __init__(self, activation: Activation, metrics: Metrics, ttl_s: int, callers: Callers | None = None) -> None:
        self._activation, self._metrics, self._ttl_s, self._callers = activation, metrics, ttl_s, callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        signed: list[tuple[bytes, bytes]] = []
        try:
            status, body = await self._answer(scope, receive)
            signer = self._activation.active().service.signer()
            signed = signer.headers(status, body) if signer else []
        except NotNowError as error:
            status, body = 503, problem(error.reason, str(error))
        except UnknownCallerError as error:
            status, body = 401, problem(error.reason, str(error))
        except BadRequestError as error:
            status, body = 422, problem("BadRequest", str(error))
        except TooLargeError as error:
            status, body = 413, problem("TooLarge", str(error))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *signed]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status == 503:
            headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> _Answer:
        self._activation.active()
        caller = await caller_of(self._callers, Headers(scope=scope), scope)
        body = await _read(receive)
        begun, active = time.perf_counter(), self._activation.active()
        request, nonce = parse_lease(body, caller)
        answer = await active.run(active.service.lease(request))
        self._metrics.count_lease(answer.verdict, time.perf_counter() - begun)
        return 403 if answer.verdict.state is State.REFUSED else 200, answer_json(
            answer, self._ttl_s, statement(request, nonce, datetime.now(UTC))
        )


async def caller_of(callers: Callers | None, headers: Headers, scope: Scope) -> Caller | None:
    """The pod that asks; None where the server asks for no tokens."""
    if callers is None:
        return None
    peer = scope.get("client")
    return await callers.identify(headers.get("authorization", ""), peer[0] if peer else "")


def problem(reason: str, message: str) -> bytes:
    """The body of an answer that decided nothing."""
    return json.dumps({"reason": reason, "message": message}, ensure_ascii=False).encode()


async def _read(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body") and len(body) <= BODY_MAX_BYTES:
        message = await receive()
        body += message.get("body", b"")
    if len(body) > BODY_MAX_BYTES:
        raise TooLargeError(f"the request is larger than {BODY_MAX_BYTES // 1024} KiB")
    return body
