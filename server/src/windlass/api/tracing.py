"""One span for each request that the engine works on, from its arrival at the guard to the end of its answer.

The engine takes the span for the parent of its own, so that both are one trace; a client's `traceparent` is the parent
of ours. The engine sets up the exporter, in its own process and before the first request. OpenTelemetry comes with the
engine and is imported only where traces are asked for. Nothing of a key but its name, and nothing of a body, is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from windlass.front.asgi import REQUEST_ID, RawHeaders, Scope, header, replaced
from windlass.front.refusal import Refusal

TRACES_VARIABLE = "WINDLASS_TRACES"
CONTEXT_HEADERS = ("traceparent", "tracestate")
TRACER = "windlass.guard"


class Traces:
    """Makes the spans; without the variable a request passes as it is."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Import OpenTelemetry where traces are asked for."""
        self._on = environment.get(TRACES_VARIABLE) == "1"
        if self._on:
            self._trace: Any = import_module("opentelemetry.trace")
            self._context: Any = import_module("opentelemetry.trace.propagation.tracecontext")

    @contextmanager
    def request(self, scope: Scope, path: str, key: str) -> Iterator[Scope]:
        """The request as the engine gets it."""
        if not self._on:
            yield scope
            return
        propagator = self._context.TraceContextTextMapPropagator()
        told = {name: header(scope["headers"], name.encode()).decode("latin-1") for name in CONTEXT_HEADERS}
        known = {"http.request.method": scope["method"], "http.route": path, "windlass.key": key}
        known["windlass.request_id"] = header(scope["headers"], REQUEST_ID).decode("latin-1")
        span = self._trace.get_tracer(TRACER).start_span(
            f"{scope['method']} {path}",
            context=propagator.extract({name: value for name, value in told.items() if value}),
            kind=self._trace.SpanKind.SERVER,
            attributes={name: value for name, value in known.items() if value},
        )
        carrier: dict[str, str] = {}
        propagator.inject(carrier, context=self._trace.set_span_in_context(span))
        try:
            yield {**scope, "headers": _with_context(scope, carrier)}
        except Refusal as refusal:
            span.set_attribute("http.response.status_code", refusal.status)
            raise
        except BaseException as error:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()


def _with_context(scope: Scope, carrier: Mapping[str, str]) -> RawHeaders:
    new = [(name.encode(), value.encode()) for name, value in carrier.items()]
    return replaced(scope["headers"], *new, drop=tuple(name.encode() for name in CONTEXT_HEADERS))
