"""Chunks of a stream go past the engine's own middleware, where all of it reads an answer's head alone.

Between a streamed answer and its connection each layer of middleware has a coroutine for every token, and passes the
chunk on unread. `install` makes starlette's streams send chunks to the sender in the scope (`with_direct_sender`).
Head and end of an answer go through all layers. Where a layer is not known to read heads alone, nothing changes.
"""

from __future__ import annotations

from collections.abc import Awaitable

from windlass.front.asgi import Answer, Message, Receive, Scope, Send
from windlass.front.outbox import Outbox
from windlass.front.usage.meter import EVENT, Meter
from windlass.front.usage.read import DONE, FIELD

EXTENSION, GUARD = "windlass.pieces", "windlass.api.guard.Guard"
HEADER_ONLY_MIDDLEWARE = frozenset(
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
"""Classes of middleware that pass chunks of a stream on as they are, in vLLM 0.32 and what it stands on."""
READS_BODIES = "body_handlers"
"""The setting of the metrics' middleware with which it collects bodies."""


def is_open(app: object) -> bool:
    """Whether all middleware of an application reads heads alone; of two guards the outer one would count nothing."""
    layers = getattr(app, "user_middleware", None)
    if layers is None:
        return False
    names = [f"{layer.cls.__module__}.{layer.cls.__qualname__}" for layer in layers]
    reads_bodies = any(layer.kwargs.get(READS_BODIES) for layer in layers)
    return HEADER_ONLY_MIDDLEWARE.issuperset(names) and names.count(GUARD) <= 1 and not reads_bodies


def direct_sender(meter: Meter, answer: Answer) -> Send:
    """Count and write a chunk in one function, at once where the client has taken all before.

    Other chunks take the guard's own path: the first one, a count of tokens, one for a slow client, and one of an
    answer that is no stream of events.
    """
    outbox = answer.send
    if not isinstance(outbox, Outbox):
        return meter
    waiting, flow, write = outbox.waiting, outbox.flow, outbox.write

    def send_chunk(message: Message) -> Awaitable[None]:
        data = message["body"]
        if waiting or flow.write_paused or not meter.is_stream or FIELD in data or DONE in data or not answer.started:
            return meter(message)
        meter.events += data.count(EVENT)
        return write(message)

    return send_chunk


def with_direct_sender(scope: Scope, send_chunk: Send) -> Scope:
    """The scope of a request whose stream may send its chunks straight to `send_chunk`."""
    return {**scope, "extensions": {**scope.get("extensions", {}), EXTENSION: send_chunk}}


def install() -> None:
    """Let every streamed answer of this process use the direct sender of its scope; once is enough."""
    from starlette.responses import StreamingResponse

    respond = StreamingResponse.__call__
    if getattr(respond, "sends_directly", False):
        return

    async def respond_directly(self: StreamingResponse, scope: Scope, receive: Receive, send: Send) -> None:
        send_chunk: Send | None = scope.get("extensions", {}).get(EXTENSION)
        await respond(self, scope, receive, send if send_chunk is None else _chunks_to(send_chunk, send))

    respond_directly.sends_directly = True  # type: ignore[attr-defined]
    StreamingResponse.__call__ = respond_directly  # type: ignore[method-assign]


def _chunks_to(send_chunk: Send, send: Send) -> Send:
    """Chunks go to `send_chunk`; an answer's head and its end go to `send`, through all middleware."""

    def send_either(message: Message) -> Awaitable[None]:
        return send_chunk(message) if message.get("more_body") else send(message)

    return send_either
