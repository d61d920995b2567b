"""`/v1/leases`: every pod of a cluster asks here, again and again, and gives its GPUs back."""

import time
from datetime import UTC, datetime

from fastapi import FastAPI, Request
from fastapi.responses import Response
from windlass_base.front.peers import FrontLimits

from windlass_license.cluster.callers import Callers
from windlass_license.cluster.identity import Caller
from windlass_license.election.activation import Activation
from windlass_license.http.description import LEASE_OPERATION, NO_TOKEN, NOT_NOW
from windlass_license.http.metrics import Metrics
from windlass_license.http.wire import TooLargeError, answer_json, parse_lease, statement
from windlass_license.rules.model import State

BODY_MAX_BYTES = FrontLimits().body_bytes


def add_lease_paths(
    app: FastAPI, activation: Activation, metrics: Metrics, ttl_s: int, callers: Callers | None
) -> None:
    """Add both paths; without `callers` no token is needed."""

    @app.post("/v1/leases", response_class=Response, **LEASE_OPERATION)
    async def lease(request: Request) -> Response:
        """Grant, renew or refuse a lease on all of the pod's GPUs."""
        activation.active()
        caller = await _caller_of(callers, request)
        body = await _read(request)
        begun, active = time.perf_counter(), activation.active()
        lease_request, nonce = parse_lease(body, caller)
        answer = await active.run(active.service.lease(lease_request))
        metrics.count_lease(answer.verdict, time.perf_counter() - begun)
        status = 403 if answer.verdict.state is State.REFUSED else 200
        content = answer_json(answer, ttl_s, statement(lease_request, nonce, datetime.now(UTC)))
        signer = activation.active().service.signer()
        return Response(content, status, signer.headers(status, content) if signer else None, "application/json")

    @app.delete("/v1/leases/{lease_id}", status_code=204, response_class=Response, responses=NOT_NOW | NO_TOKEN)
    async def release(lease_id: str, request: Request) -> Response:
        """Give the GPUs of a lease of this pod back; done also when there is no such lease."""
        caller = await _caller_of(callers, request)
        active = activation.active()
        await active.run(active.service.release(lease_id, caller.uid if caller else None))
        return Response(status_code=204)


async def _caller_of(callers: Callers | None, request: Request) -> Caller | None:
    """Return the pod that asks; None where the server asks for no tokens."""
    if callers is None:
        return None
    return await callers.identify(
        request.headers.get("authorization", ""), request.client.host if request.client else ""
    )


async def _read(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_MAX_BYTES:
            raise TooLargeError(f"the request is larger than {BODY_MAX_BYTES // 1024} KiB")
    return body
