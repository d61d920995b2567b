"""`GET /windlass/facts` of a running download: what the operator writes into `.status.download`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from windlass_base.bounded_server import END_LOOK_S, BoundedServer

PATH = "/windlass/facts"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the operator asks from another pod


def serve(port: int, facts: Callable[[], dict[str, Any]]) -> BoundedServer:
    """Answer in the background until `shutdown`; OSError when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            found = self.path.split("?")[0] == PATH
            body = json.dumps(facts() if found else {"error": f"only {PATH} is here"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: the log holds the progress lines."""

    server = BoundedServer((EVERYWHERE, port), Handler)
    threading.Thread(target=server.serve_forever, args=(END_LOOK_S,), name="facts", daemon=True).start()
    return server
