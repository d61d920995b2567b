"""Spans of what the operator does, by OTLP: a trace for each reconcile, its stages and its writes inside.

`runtime/run.py` starts them where the chart names an endpoint. OpenTelemetry is imported there and nowhere else, so
that an operator without traces has neither its memory nor its threads. A span holds names, never a part of a spec.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
SERVICE = "windlass-operator"
GOODBYE_S = 2.0
"""How long the operator's end waits for a collector to take the last spans."""
OFF: AbstractContextManager[None] = nullcontext()


class Spans:
    """Makes spans while it is started."""

    def __init__(self) -> None:
        """Nothing is traced yet."""
        self._tracer: Any = None
        self._provider: Any = None
        self._exporter: Any = None
        self._failed: Any = None

    def start(self, endpoint: str, pod: str, version: str) -> None:
        """Send spans to an endpoint of OTLP over HTTP, from a thread that holds up nobody."""
        sdk: Any = import_module("opentelemetry.sdk.trace")
        export: Any = import_module("opentelemetry.sdk.trace.export")
        http: Any = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        resource: Any = import_module("opentelemetry.sdk.resources").Resource
        trace: Any = import_module("opentelemetry.trace")
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # else each retry is a line
        known = {"service.name": SERVICE, "service.version": version, "k8s.pod.name": pod}
        self._provider = sdk.TracerProvider(resource=resource.create(known), shutdown_on_exit=False)
        self._exporter = http.OTLPSpanExporter(endpoint=endpoint)
        self._provider.add_span_processor(export.BatchSpanProcessor(self._exporter))
        self._failed = lambda words: trace.Status(trace.StatusCode.ERROR, words)
        self._tracer = self._provider.get_tracer(SERVICE, version)

    def stop(self) -> None:
        """Send what is left; a collector that does not answer is not waited for."""
        if self._provider is None:
            return
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        self._tracer = self._provider = None
        last.start()
        last.join(GOODBYE_S)
        if last.is_alive():
            self._exporter.shutdown()  # ends what it tries again

    def span(self, name: str, **attributes: str) -> AbstractContextManager[object]:
        """A span around a block, inside the one that is open; the attributes are named `windlass.…`."""
        return OFF if self._tracer is None else self._open(name, attributes)

    @contextmanager
    def _open(self, name: str, attributes: dict[str, str]) -> Iterator[None]:
        named = {f"windlass.{key}": value for key, value in attributes.items()}
        # An exception's text may quote a spec, so its class alone goes out.
        quiet = {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(name, attributes=named, **quiet) as span:
            try:
                yield
            except BaseException as error:
                span.set_status(self._failed(type(error).__name__))
                raise

    def stage(self, name: str) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
        """A span around each call of a coroutine function."""

        def around(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
            @functools.wraps(function)
            async def traced(*args: P.args, **kwargs: P.kwargs) -> R:
                with self.span(name):
                    return await function(*args, **kwargs)

            return traced

        return around


spans = Spans()
"""The program's own, as loggers are."""
