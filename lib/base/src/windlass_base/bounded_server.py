"""An HTTP server of threads with a bounded number of them: who opens connections and says nothing keeps nobody out."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import ThreadingHTTPServer
from typing import Any

MOST_CONNECTIONS = 64
"""Connections, each with a thread; the operator, a scraper and the probes have a handful."""
END_LOOK_S = 0.05
"""Seconds between two looks of `serve_forever` for its end, which `shutdown` awaits; the standard library has 0.5."""


class BoundedServer(ThreadingHTTPServer):
    """Ends the oldest connection when a new one is one too many."""

    daemon_threads = True
    request_queue_size = 128  # the standard library's 5 make clients wait a second for their next try

    def __init__(self, *words: Any) -> None:  # noqa: ANN401 - the standard library's own words
        """Nothing is open."""
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}  # insertion order: the oldest is first
        super().__init__(*words)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Serve a connection in a thread of its own."""
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > MOST_CONNECTIONS else None
            if oldest is not None:
                del self._open[oldest]
        if oldest is not None:
            with suppress(OSError):  # it ended by itself meanwhile
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as there
        """Forget a connection that is over."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)
