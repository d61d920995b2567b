"""Runs the application in a process. The only file that imports uvicorn."""

from __future__ import annotations

import uvicorn

from windlass_console.http.guard import Guard

KEEP_ALIVE_S, STOP_S = 65, 5  # seconds; an ingress keeps its connections for 60
HEADERS_MAX = 32 << 10  # bytes of a request's headers


def serve(app: Guard, host: str, port: int) -> int:
    """Listen until SIGTERM or SIGINT. No request is logged: addresses name services, headers hold tokens."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        h11_max_incomplete_event_size=HEADERS_MAX,
    )
    uvicorn.Server(config).run()
    return 0
