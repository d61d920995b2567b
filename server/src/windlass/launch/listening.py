"""Where the engine's API answers, out of the engine's own words: the supervisor asks it there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from windlass_sizing import engine_flags
from windlass_sizing.settings import engine_words

from windlass.errors import UsageError

HOST, SOCKET, CLIENTS = "--host", "--uds", "--ssl-cert-reqs"
TLS = ("--ssl-certfile", "--ssl-keyfile")
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
LOOPBACK = "127.0.0.1"
REQUIRED = "2"
"""As Python's `ssl` counts: no certificate, one if there is one, one by all means."""


def address(words: Sequence[str], port: int) -> str:
    """The root of the API's URLs; UsageError where neither the supervisor nor a probe can ask."""
    said = engine_words.values(words, engine_flags.record(), (HOST, SOCKET, CLIENTS, *TLS))
    if said.get(SOCKET):
        raise UsageError(f"{SOCKET} leaves the API without a port, so that no probe can ask it; leave it out")
    if said.get(CLIENTS) == REQUIRED:
        raise UsageError(
            f"{CLIENTS} {REQUIRED} asks every client for a certificate, and probes have none; leave it out, "
            "and ask for certificates in front of the server"
        )
    host = said.get(HOST, "")
    host = LOOPBACK if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"{'https' if any(flag in said for flag in TLS) else 'http'}://{host}:{port}"
