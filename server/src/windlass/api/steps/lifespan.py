"""Start and stop of an API process: what the guard begins when the engine's application is whole, and ends with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from windlass.api import fetching, shortcut
from windlass.api.steps.engine import Engine
from windlass.api.steps.state import State
from windlass.api.stopping import on_stop
from windlass.front import connections
from windlass.front.asgi import Application, Message, Receive, Scope, Send
from windlass.front.processes.member import Link
from windlass.front.processes.wire import STEPS
from windlass.front.progress import rule, watch
from windlass.front.progress.watch import Watch

log = logging.getLogger(__name__)


class Lifespan:
    """Follows the application's own start and stop."""

    def __init__(self, app: Application, state: State, watch: Watch, engine: Engine) -> None:
        """Keep what start and stop need."""
        self._app, self._state, self._watch, self._engine = app, state, watch, engine
        self.watching: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the application's messages on, each after our part of it."""

        async def send_after(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await self.start(scope.get("app"))
            elif message["type"] == "lifespan.shutdown.complete":
                await self.stop()
            await send(message)

        await self._app(scope, receive, send_after)

    async def start(self, app: object) -> None:
        """Connect to owner and replicas, watch the engine, and drain when the process is told to stop."""
        state, loop = self._state, asyncio.get_running_loop()
        on_stop(partial(_call_soon, loop, state.gate.stop))
        _limit_connections(app)
        fetching.guard(state.settings.image_domains)
        self._engine.is_direct = shortcut.is_open(app)
        if client := watch.client_of(app):
            self.watching = asyncio.create_task(self._watch.run(client, lambda: state.open_sockets))
        if state.link:
            await state.link.start()
            self._reporting = asyncio.create_task(_report(state.link))
        await state.replicas.start()

    async def stop(self) -> None:
        """Leave owner and replicas."""
        if self._state.link:
            self._state.link.stop()
        await self._state.replicas.stop()


def _limit_connections(app: object) -> None:
    """vLLM keeps its uvicorn server in the application's state, and that server listens after this."""
    if app is None:
        return
    server = getattr(getattr(app, "state", None), "server", None)
    if server is None:
        log.error("windlass: the engine's application holds no server; its connections have no time limits")
    else:
        connections.limit(server.config)


async def _report(link: Link) -> None:
    while True:
        link.send(STEPS, rule.OF_THIS_PROCESS.steps)
        await asyncio.sleep(rule.EVERY_S)


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
