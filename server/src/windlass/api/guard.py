"""The guard in front of the engine's server: `--middleware windlass.api.guard.Guard`. The shell around this package.

The engine adds it last, so it is the outermost of its middleware. Order of a request: tidy path and id, our own pages,
key, size, body, place in the queue, engine. Pure ASGI: an answer passes through as the engine sends it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from windlass.api import body, names, pages, remedies, routes
from windlass.api.asgi import (
    REQUEST_ID,
    Answer,
    Application,
    Message,
    Receive,
    Scope,
    Send,
    has_body,
    header,
    read_body,
    replaced,
    replay,
    request_id,
    with_body,
)
from windlass.api.body import EMPTY, Body
from windlass.api.gate import Gate
from windlass.api.keys import EVERYONE, KeyFile, KeyRing
from windlass.api.outbox import Outbox, Stock
from windlass.api.refusal import Refusal
from windlass.api.remedies import Asked
from windlass.api.routes import Route
from windlass.api.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings
from windlass.api.stopping import on_stop

log = logging.getLogger(__name__)
NO_ROUTE = Route("", json=False, gated=False)
POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request on its way in."""

    scope: Scope
    receive: Receive
    path: str

    @property
    def method(self) -> str:
        """The HTTP method."""
        return str(self.scope["method"])

    @property
    def route(self) -> Route:
        """The row of this path; a plain one when there is none."""
        return routes.ROUTES.get(self.path, NO_ROUTE) if self.method == "POST" else NO_ROUTE

    def asked(self, found: Body = EMPTY) -> Asked:
        """What counts of it when its answer is an error."""
        return Asked(self.method, self.path, self.route, found)


class Guard:
    """ASGI middleware; told what to do by WINDLASS_API and WINDLASS_API_KEYS."""

    def __init__(self, app: Application, environment: Mapping[str, str] | None = None) -> None:
        """Read settings and keys; a wrong setting stops the server from answering at all."""
        environment = os.environ if environment is None else environment
        self._app = app
        self._settings = settings = ApiSettings.from_json(environment.get(SETTINGS_VARIABLE, ""))
        file = KeyFile(settings.keys_file) if settings.keys_file else None
        self._keys = KeyRing(environment.get(KEYS_VARIABLE, ""), file)
        self._gate = Gate(settings.concurrency, settings.queue)
        self._stock = Stock()
        self._refused: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of any kind."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, partial(self._lifespan, send))

    async def _lifespan(self, send: Send, message: Message) -> None:
        if message["type"] == "lifespan.startup.complete":
            loop = asyncio.get_running_loop()
            on_stop(partial(_tell, loop, self._gate.stop))
        await send(message)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._keys.admit(header(scope["headers"], b"authorization"))
        except Refusal as refusal:
            self._refused[refusal.status] += 1
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": refusal.message})
            return
        await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        id_ = request_id(scope["headers"])
        outbox = Outbox(send, self._stock)
        answer = Answer(outbox, id_)
        try:
            await self._serve(_request(scope, receive, id_), answer)
        except Refusal as refusal:
            self._refused[refusal.status] += 1
            await answer.refuse(refusal)
        except Exception:  # the outermost place: the engine's server knows no id and no shape
            if answer.started:
                raise
            log.exception("windlass: request %s failed", id_)
            await answer.refuse(Refusal(500, f"the server failed on this request; its log tells why, by id {id_}"))
        finally:
            await outbox.close()

    async def _serve(self, request: Request, answer: Answer) -> None:
        is_open = routes.is_open(request.method, request.path, metrics_closed=self._settings.metrics_closed)
        who = EVERYONE
        if not is_open and not _is_preflight(request):
            who = self._keys.admit(header(request.scope["headers"], b"authorization"))
        if request.path in routes.CLOSED:
            raise Refusal(403, f"{request.path} is closed; the number of engines is set where they are started")
        page = self._page(request)
        if page:
            await page(answer)
        elif not has_body(request.scope["headers"]) and not request.route.json:
            answer.reshape = None if is_open else partial(self._reshape, request.scope, request.asked())
            await self._app(request.scope, request.receive, answer)
        else:
            await self._with_body(request, who, answer)

    async def _with_body(self, request: Request, who: str, answer: Answer) -> None:
        raw = await read_body(request.scope, request.receive, self._settings.max_body_bytes)
        if raw is None:
            return
        if request.route.json:
            found = body.rewrite(raw, request.route, self._settings)
        else:
            body.check_media(raw, self._settings)
            found = body.Body(raw)
        asked = request.asked(found)
        answer.reshape = partial(self._reshape, request.scope, asked)
        try:
            await self._in_turn(request, found.raw, who, answer)
        except Exception as error:
            refusal = remedies.refusal(asked, error)
            if refusal is None or answer.started:
                raise
            raise refusal from error

    async def _in_turn(self, request: Request, raw: bytes, who: str, answer: Answer) -> None:
        scope = with_body(request.scope, raw)
        if not request.route.gated:
            await self._app(scope, replay(raw, request.receive, _nothing), answer)
            return
        place = self._gate.enter(who)
        try:
            if await place.wait(request.receive):
                await self._app(scope, replay(raw, request.receive, place.leave), answer)
        finally:
            place.leave()

    def _page(self, request: Request) -> Callable[[Answer], Awaitable[None]] | None:
        if request.method not in ("GET", "HEAD"):
            return None
        rows = {
            "/": self._front,
            "/chat": self._chat,
            "/windlass/facts": self._facts,
            "/windlass/metrics": self._metrics,
        }
        found = rows.get(request.path)
        return partial(found, request.scope) if found else None

    async def _front(self, scope: Scope, answer: Answer) -> None:
        await answer.give(200, pages.front(self._names(scope), str(scope.get("root_path", ""))))

    async def _chat(self, _: Scope, answer: Answer) -> None:
        page, headers = pages.chat()
        type_ = next((value for name, value in headers.items() if name.lower() == "content-type"), "text/html")
        others = tuple((name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS)
        await answer.give(200, page, type_.encode(), others)

    async def _facts(self, scope: Scope, answer: Answer) -> None:
        required = self._keys.required
        names_ = self._names(scope)
        await answer.give(200, pages.facts(self._settings, names_, self._gate, self._refused, keys=required))

    async def _metrics(self, _: Scope, answer: Answer) -> None:
        await answer.give(200, pages.metrics(self._gate, self._refused, self._stock.unread_bytes), pages.TEXT)

    def _names(self, scope: Scope) -> tuple[str, ...]:
        return names.served(self._settings, scope.get("app"))

    def _reshape(self, scope: Scope, asked: Asked, status: int, content: bytes) -> tuple[int, bytes]:
        known, model = self._names(scope), asked.body.model
        if status == 404 and not asked.route.gives and model and known and model not in known:
            return status, names.unknown(model, known).body
        return remedies.mended(asked, status, content)


_OWN_HEADERS = ("content-type", "content-length")


def _request(scope: Scope, receive: Receive, id_: str) -> Request:
    path = routes.tidy(scope["path"])
    headers = replaced(scope["headers"], (REQUEST_ID, id_.encode()), drop=(REQUEST_ID,))
    tidied = {**scope, "path": path, "headers": headers}
    if raw_path := scope.get("raw_path"):
        tidied["raw_path"] = routes.tidy(raw_path.decode("latin-1")).encode("latin-1")
    return Request(tidied, receive, routes.route_path(tidied))


def _is_preflight(request: Request) -> bool:
    # A browser asks without the key whether it may ask with it.
    headers = request.scope["headers"]
    asks = header(headers, b"origin") and header(headers, b"access-control-request-method")
    return request.method == "OPTIONS" and bool(asks)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _nothing() -> None:
    return
