"""Runs the application in a process. The only file that imports uvicorn."""

from __future__ import annotations

import logging
from dataclasses import replace

import uvicorn
from windlass_base.front.connection import Front, guarded, raise_file_limit
from windlass_base.front.peers import FrontLimits

from windlass_console.http.bodies import allowances
from windlass_console.http.guard import Guard

log = logging.getLogger(__name__)
KEEP_ALIVE_S, STOP_S = 65, 5  # seconds; an ingress keeps its connections for 60
LIMITS = FrontLimits(
    connections=2048,
    connections_per_peer=1024,  # an ingress is one peer, whoever is behind it
    requests_per_s=0.0,
    head_s=10.0,
    idle_s=KEEP_ALIVE_S + 5.0,
    head_bytes=32 << 10,  # a token of 16 KiB, and the header with it that an ingress adds
)


def serve(app: Guard, host: str, port: int, limits: FrontLimits = LIMITS) -> int:
    """Listen until SIGTERM or SIGINT. No request is logged: addresses name services, headers hold tokens."""
    possible = replace(limits, connections=raise_file_limit(limits, log.warning))
    uvicorn.Server(config(app, host, port, possible)).run()
    return 0


def config(app: Guard, host: str, port: int, limits: FrontLimits) -> uvicorn.Config:
    """How uvicorn serves it."""
    front = Front(limits, allowances(app.prefix), _document)
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=guarded(front),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
    )


def _document(reason: str, message: str) -> dict[str, object]:
    """A refusal of the connection in the shape of all others."""
    return {"error": message, "reason": reason.removeprefix("Content"), "fields": []}
