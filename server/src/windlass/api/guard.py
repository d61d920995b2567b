"""The guard in front of the engine's server: `--middleware windlass.api.guard.Guard`. The shell around this package.

The engine adds it last, so it is the outermost of its middleware. Order of a request: path, host, key, route, limits of
the key, size, place in the queue, body, engine; each step is cheaper than the next, and the first that fails ends it. A
small body is read and checked before it waits for a place. Until the start is over (`starting`) probes hear 503, and
the supervisor needs neither key nor place. Pure ASGI: an answer passes through as the engine sends it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress

from windlass.api import shortcut
from windlass.api.steps.address import HostCheck, PathReader
from windlass.api.steps.body import BodyReader
from windlass.api.steps.engine import Engine
from windlass.api.steps.key import KeyCheck
from windlass.api.steps.lifespan import Lifespan
from windlass.api.steps.limits import Limits
from windlass.api.steps.own_answers import OwnAnswers
from windlass.api.steps.place import Places
from windlass.api.steps.probes import Probes
from windlass.api.steps.request import Check, Request
from windlass.api.steps.route import check_route
from windlass.api.steps.size import SizeCheck
from windlass.api.steps.sockets import Sockets
from windlass.api.steps.state import State
from windlass.front import connections
from windlass.front.asgi import Answer, Application, Receive, Scope, Send, request_id
from windlass.front.intake import Gone
from windlass.front.outbox import Outbox, Reader
from windlass.front.refusal import Refusal

log = logging.getLogger(__name__)
SERVICE_VARIABLE = "WINDLASS_SERVICE"


class Guard:
    """ASGI middleware, configured by WINDLASS_API and WINDLASS_API_KEYS."""

    def __init__(self, app: Application, environment: Mapping[str, str] | None = None) -> None:
        """Make the steps; a wrong setting stops the server from answering at all."""
        environment = os.environ if environment is None else environment
        self.state = state = State.of(environment)
        self.probes = Probes(environment, state.link)
        self._read_path = PathReader(state.settings)
        self._checks: tuple[Check, ...] = (HostCheck(state.settings), KeyCheck(state.keys), check_route)
        self._own_answers = OwnAnswers(state, self.probes, environment.get(SERVICE_VARIABLE, ""))
        self._limits = Limits(state.accounts, environment)
        self._size = SizeCheck(state.settings, state.bodies, state.keys)
        self._place = Places(state.gate, state.keys)
        self._read_body = BodyReader(state.settings)
        self.engine = Engine(app, state.settings)
        self.lifespan = Lifespan(app, state, self.probes.watch, self.engine)
        self._scopes: dict[str, Application] = {"http": self._http, "websocket": Sockets(app, state)}
        shortcut.install()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of any kind."""
        await self._scopes.get(scope["type"], self.lifespan)(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: with a refusal of a step, or as the engine does."""
        id_ = request_id(scope["headers"])
        outbox = Outbox(send, self.state.stock, Reader(connection=connections.of(scope)))
        answer = Answer(outbox, id_)
        try:
            with suppress(Gone):
                await self._steps(self._read_path(scope, receive, answer, id_), outbox)
        except Refusal as refusal:
            self.state.refused[refusal.status] += 1
            await answer.refuse(refusal)
        except Exception:  # the outermost place: the engine's server knows no id and no shape
            if answer.started:
                raise
            log.exception("windlass: request %s failed", id_)
            await answer.refuse(Refusal(500, f"the server failed on this request; its log tells why, by id {id_}"))
        finally:
            await outbox.close()

    async def _steps(self, request: Request, outbox: Outbox) -> None:
        """Take a request through the steps after its path."""
        request.is_ours = self.probes.is_ours(request.scope["headers"])
        if not_ready := self.probes.refusal(request):
            await request.answer.refuse(not_ready)  # a probe is no refused request
            return
        if not (request.is_open or request.is_ours):
            for check in self._checks:
                check(request)
        outbox.reader = Reader(request.key.id, self.state.keys.several, outbox.reader.connection)
        if answer := self._own_answers.find(request):
            await answer(request)
        elif not request.has_body:
            await self.engine.plain(request)
        elif request.is_counted:
            await self._limits(request, self._work)
        else:
            await self._work(request)

    async def _work(self, request: Request) -> None:
        """Take a request with a body through the last steps: size, place, body, engine."""
        intake = self._size(request)
        try:
            await self._place(request, intake, self._read_body, self.engine)
        finally:
            intake.release()
