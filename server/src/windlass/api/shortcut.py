"""Pieces of a stream go past the engine's own middleware, where all of it looks at an answer's head alone.

Between a streamed answer and its connection each layer of middleware has a coroutine for every token, and passes the
piece on unread. `install` makes starlette's streams send pieces to what the guard put into the scope (`with_way`).
Their head and end take the way through all layers. Where a layer is not known to read heads alone, nothing changes.
"""

from __future__ import annotations

from collections.abc import Awaitable

from windlass.front.asgi import Answer, Message, Receive, Scope, Send
from windlass.front.outbox import Outbox
from windlass.front.usage.meter import EVENT, Meter
from windlass.front.usage.read import DONE, FIELD

EXTENSION, GUARD = "windlass.pieces", "windlass.api.guard.Guard"
READ_HEADS = frozenset(
    {
        "starlette.middleware.cors.CORSMiddleware",
        "prometheus_fastapi_instrumentator.middleware.PrometheusInstrumentatorMiddleware",
        "vllm.entrypoints.serve.elastic_ep.middleware.ScalingMiddleware",
        "vllm.entrypoints.serve.middleware.authenticate.AuthenticationMiddleware",
        "vllm.entrypoints.serve.middleware.x_request_id.XRequestIdMiddleware",
        "vllm.entrypoints.speech_to_text.realtime.metrics.WebSocketMetricsMiddleware",
        GUARD,
    }
)
"""Classes of middleware that pass pieces of a stream on as they are, in vLLM 0.32 and what it stands on."""
READS_BODIES = "body_handlers"
"""The setting of the metrics' middleware with which it collects bodies."""


def is_open(app: object) -> bool:
    """Whether all middleware of an application reads heads alone; of two guards the outer one would count nothing."""
    layers = getattr(app, "user_middleware", None)
    if layers is None:
        return False
    names = [f"{layer.cls.__module__}.{layer.cls.__qualname__}" for layer in layers]
    reads_bodies = any(layer.kwargs.get(READS_BODIES) for layer in layers)
    return READ_HEADS.issuperset(names) and names.count(GUARD) <= 1 and not reads_bodies


def straight(meter: Meter, answer: Answer) -> Send:
    """The way of a piece as one function: counted, and written at once where the client has taken all before.

    What it does not settle takes the guard's own way: the first piece, a count of tokens, a client that is slow, and an
    answer that is no stream of events.
    """
    outbox = answer.send
    if not isinstance(outbox, Outbox):
        return meter
    waiting, flow, write = outbox.waiting, outbox.flow, outbox.write

    def way(message: Message) -> Awaitable[None]:
        data = message["body"]
        if waiting or flow.write_paused or not meter.is_stream or FIELD in data or DONE in data or not answer.started:
            return meter(message)
        meter.events += data.count(EVENT)
        return write(message)

    return way


def with_way(scope: Scope, way: Send) -> Scope:
    """The scope of a request whose stream may send its pieces straight to `way`."""
    return {**scope, "extensions": {**scope.get("extensions", {}), EXTENSION: way}}


def install() -> None:
    """Let every streamed answer of this process take the way that its scope has; once is enough."""
    from starlette.responses import StreamingResponse

    respond = StreamingResponse.__call__
    if getattr(respond, "is_shortened", False):
        return

    async def shortened(self: StreamingResponse, scope: Scope, receive: Receive, send: Send) -> None:
        way: Send | None = scope.get("extensions", {}).get(EXTENSION)
        await respond(self, scope, receive, send if way is None else _past(send, way))

    shortened.is_shortened = True  # type: ignore[attr-defined]
    StreamingResponse.__call__ = shortened  # type: ignore[method-assign]


def _past(send: Send, way: Send) -> Send:
    """Pieces go the one way; an answer's head, and its end, the other."""

    def sent(message: Message) -> Awaitable[None]:
        return way(message) if message.get("more_body") else send(message)

    return sent
