"""A receiver of traces, inside the serving container or a test: each span that comes by OTLP over HTTP as a JSON line.

In a container: `python3 trace_receiver.py OUT.jsonl PORT`. In a test: `with receiving(path) as endpoint`.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

ERROR = 2
"""STATUS_CODE_ERROR of OTLP."""


def rows(request: ExportTraceServiceRequest) -> list[dict[str, Any]]:
    """The spans of one request, with what a test asks for."""
    return [
        {
            "service": next((a.value.string_value for a in group.resource.attributes if a.key == "service.name"), ""),
            "scope": scope.scope.name,
            "name": span.name,
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "began": span.start_time_unix_nano,
            "ended": span.end_time_unix_nano,
            "error": span.status.message if span.status.code == ERROR else "",
            "events": [event.name for event in span.events],
            "attributes": {a.key: a.value.string_value or a.value.int_value for a in span.attributes},
        }
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def server(out: Path, port: int) -> ThreadingHTTPServer:
    """A server on the loopback that takes POST /v1/traces; port 0 is any free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            text = "".join(json.dumps(row) + "\n" for row in rows(ExportTraceServiceRequest.FromString(body)))
            with out.open("a") as file:
                file.write(text)
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


@contextmanager
def receiving(out: Path) -> Iterator[str]:
    """A receiver in a thread; gives the endpoint to send to."""
    with server(out, 0) as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/v1/traces"
        http.shutdown()


def read(out: Path) -> list[dict[str, Any]]:
    """The spans that have come."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


if __name__ == "__main__":
    server(Path(sys.argv[1]), int(sys.argv[2])).serve_forever()
