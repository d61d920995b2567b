"""A receiver of traces inside the serving container: writes each span that comes by OTLP over HTTP as one JSON line."""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PORT = 4318


def rows(request: ExportTraceServiceRequest) -> list[dict[str, object]]:
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
            "attributes": {a.key: a.value.string_value or a.value.int_value for a in span.attributes},
        }
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


class Handler(BaseHTTPRequestHandler):
    """Takes POST /v1/traces."""

    def do_POST(self) -> None:
        """Keep the spans."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with Path(sys.argv[1]).open("a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows(ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
