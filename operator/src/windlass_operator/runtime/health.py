"""`/readyz` says whether the streams live and the queue is young; it is served beside `/metrics`.

`judge` is pure. kopf itself serves `/healthz` on the health port, on the event loop: a loop that hangs does not answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

QUEUE_OLD_S = 30.0
WATCH_PATIENCE_S = 30.0
UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Health:
    """What is asked: the watches that do not live, by kind with the reason, and the age of the oldest due key."""

    watches: Mapping[str, str]
    oldest_s: float


def judge(health: Health) -> list[str]:
    """Why the operator is not ready; nothing when it is."""
    wrong = [f"watch of {kind}: {why}" for kind, why in sorted(health.watches.items())]
    if health.oldest_s > QUEUE_OLD_S:
        wrong.append(f"queue: an LLMService has waited {health.oldest_s:.0f} s for its reconcile")
    return wrong


@asynccontextmanager
async def serve(port: int, look: Callable[[], Health]) -> AsyncIterator[None]:
    """Answer `/readyz` and `/metrics` on this port; 0 serves nothing."""
    if not port:
        yield
        return

    async def ready(_request: web.Request) -> web.Response:
        wrong = judge(look())
        return web.Response(text="".join(f"{line}\n" for line in wrong or ["ok"]), status=UNAVAILABLE if wrong else 200)

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/readyz", ready), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, None, port).start()
        yield
    finally:
        await runner.cleanup()
