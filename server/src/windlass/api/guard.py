"""The guard in front of the engine's server: `--middleware windlass.api.guard.Guard`. The shell around this package.

The engine adds it last, so it is the outermost of its middleware. Order of a request: path, host, key, route, limits of
the key, size, place in the queue, body, engine; each step is cheaper than the next, and the first that fails ends it. A
small body is read and checked before it waits for a place. Until the start is over (`starting`) probes hear 503, and
the supervisor needs neither key nor place. Pure ASGI: an answer passes through as the engine sends it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from windlass.api import body, fetching, names, pages, remedies, routes, shortcut
from windlass.api.body import EMPTY, Body
from windlass.api.remedies import Asked
from windlass.api.routes import Access, Route, Rows
from windlass.api.stopping import on_stop
from windlass.api.tracing import Traces
from windlass.front import connections, paths
from windlass.front.asgi import (
    REQUEST_ID,
    Answer,
    Application,
    Message,
    Receive,
    Scope,
    Send,
    credential,
    has_body,
    header,
    replaced,
    replay,
    request_id,
    with_body,
)
from windlass.front.budget import Budget, Shares
from windlass.front.gate import Gate, in_turn
from windlass.front.intake import SMALL_BYTES, Gone, Hold, Intake, announced_bytes
from windlass.front.key_document import Key
from windlass.front.keys import NOBODY, KeyFile, KeyRing
from windlass.front.limits.limiter import Limiter
from windlass.front.limits.settings import replicas
from windlass.front.outbox import UNREAD_BYTES_MAX, Outbox, Reader, Stock
from windlass.front.processes import numbers
from windlass.front.processes.member import Link, SharedGate, SharedLimits
from windlass.front.processes.numbers import Numbers
from windlass.front.processes.wire import STALLED, STARTED, STEPS
from windlass.front.progress import rule, watch
from windlass.front.progress.watch import Watch
from windlass.front.refusal import Refusal
from windlass.front.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings
from windlass.front.starting import KEY_VARIABLE, OVER_PATH, PROBES, Start
from windlass.front.usage import journal
from windlass.front.usage.account import Account, Accounts

log = logging.getLogger(__name__)
NO_ROUTE = Route("", json=False, gated=False)
POLICY_VIOLATION = 1008
PARSERS = 2
"""Threads for large bodies: one holds the interpreter at a time, and a second begins while the first one ends."""
NO_ROWS = Rows({})
SERVICE_VARIABLE = "WINDLASS_SERVICE"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request on its way in."""

    scope: Scope
    receive: Receive
    path: str
    rows: Rows | None
    """The rows of its path; nothing when the path has none."""
    is_ours: bool = False
    """The supervisor asks while the server starts."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return str(self.scope["method"])

    @property
    def row(self) -> Route | None:
        """The row of its path and method."""
        return (self.rows or NO_ROWS).row(self.method)

    @property
    def route(self) -> Route:
        """The same; a plain one when there is none."""
        return self.row or NO_ROUTE

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
        self._link = Link.of(environment)
        self._replicas = SharedLimits(self._link) if self._link else replicas(environment, self._keys)
        self._accounts = Accounts(Limiter(self._replicas), journal.Journals(journal.root(environment)))
        self._service = environment.get(SERVICE_VARIABLE, "")
        self._traces = Traces(environment)
        self._start = Start(environment.get(KEY_VARIABLE, ""))
        progress = _progress(environment)
        self._watch = Watch(progress, lambda: self._start.is_over)
        self._watching: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._sockets = 0
        self._gate = SharedGate(self._link) if self._link else Gate(settings.concurrency, settings.queue)
        self._stock = Stock(Shares(UNREAD_BYTES_MAX // settings.processes))
        self._bodies = Budget(settings.bodies_bytes)
        self._parsers = ThreadPoolExecutor(PARSERS, "windlass-parse")
        self._refused: Counter[int] = Counter()
        if self._link:
            self._link.counted, self._link.on_started = self._counted, self._start.end
            self._link.on_elsewhere = progress.stepped_elsewhere
            self._watch.tell = partial(self._link.send, STALLED)
        connections.install()  # the engine reads its server's configuration after it made its middleware
        shortcut.install()
        self._is_short = False  # until the application is whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of any kind."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, partial(self._lifespan, scope.get("app"), send))

    async def _lifespan(self, app: object, send: Send, message: Message) -> None:
        if message["type"] == "lifespan.startup.complete":
            loop = asyncio.get_running_loop()
            on_stop(partial(_tell, loop, self._gate.stop))
            fetching.guard(self._settings.image_domains)
            self._is_short = shortcut.is_open(app)
            if client := watch.client_of(app):
                self._watching = asyncio.create_task(self._watch.run(client, lambda: self._sockets))
            if self._link:
                await self._link.start()
                self._reporting = asyncio.create_task(self._report(self._link))
            await self._replicas.start()
        elif message["type"] == "lifespan.shutdown.complete":
            if self._link:
                self._link.stop()
            await self._replicas.stop()
        await send(message)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            paths.check(scope["path"], scope.get("raw_path") or b"")
            paths.check_host(header(scope["headers"], b"host"), self._settings.allowed_hosts)
            key = self._keys.find(credential(scope["headers"]))
            if routes.SOCKETS.get(routes.route_path(scope)) is not Access.KEY:
                raise Refusal(404, "there is no websocket at this path")
            if key.models or key.limits.any:
                raise Refusal(403, "this API key has limits, which a websocket does not hold; use HTTP")
        except Refusal as refusal:
            self._refused[refusal.status] += 1
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": refusal.message})
            return
        self._sockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._sockets -= 1

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        id_ = request_id(scope["headers"])
        outbox = Outbox(send, self._stock, Reader(connection=connections.of(scope)))
        answer = Answer(outbox, id_)
        try:
            with suppress(Gone):
                request = self._asked(_request(scope, receive, id_, self._settings))
                if unwell := self._unwell(request):
                    await answer.refuse(unwell)  # a probe is no refused request
                    return
                key = NOBODY if request.is_ours else self._admit(request)
                outbox.reader = replace(outbox.reader, key=key.id, shared=self._keys.several)
                await self._serve(request, key, answer)
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

    def _unwell(self, request: Request) -> Refusal | None:
        if request.is_ours or request.path not in PROBES:
            return None
        told = self._link.stalled if self._link else ""
        return self._start.refusal() or self._watch.refusal(told)

    def _asked(self, request: Request) -> Request:
        return replace(request, is_ours=self._start.has_key(request.scope["headers"]))

    def _admit(self, request: Request) -> Key:
        """The key that asks; refuses a request by its path, host, key and method alone."""
        row, rows, path = request.row, request.rows, request.path
        if row and routes.is_open(row, metrics_closed=self._settings.metrics_closed):
            return NOBODY
        paths.check_host(header(request.scope["headers"], b"host"), self._settings.allowed_hosts)
        key = NOBODY
        if not _is_preflight(request):
            key = self._keys.find(credential(request.scope["headers"]))
        if rows is None:
            raise Refusal(404, f"there is no {request.method} {path[:100]} here; GET /docs lists what there is")
        if rows.is_closed:
            raise Refusal(403, f"{path} is closed: it controls the engine; the settings of the server may open it")
        if row is None and not _is_preflight(request):
            message = f"{path} does not take {request.method}; the header Allow names what it takes"
            raise Refusal(405, message, headers=(("allow", ", ".join(rows.methods)),))
        if key.models and row and not row.json and has_body(request.scope["headers"]):
            raise Refusal(
                403, f"this API key names its models, which the body of {path} does not show; use another key"
            )
        return key

    async def _serve(self, request: Request, key: Key, answer: Answer) -> None:
        page = self._page(request)
        if page:
            await page(answer)
        elif not has_body(request.scope["headers"]) and not request.route.json:
            is_open = request.route.access is Access.OPEN
            answer.reshape = None if is_open else partial(self._reshape, request.scope, request.asked())
            await self._app(request.scope, request.receive, answer)
        elif request.route.gated and not request.is_ours:
            with self._traces.request(request.scope, request.path, key.name) as scope:
                await self._gated(replace(request, scope=scope), key, answer)
        else:
            await self._with_body(request, key, answer, None)

    async def _gated(self, request: Request, key: Key, answer: Answer) -> None:
        account = await self._accounts.begin(key, announced_bytes(request.scope))
        answer.headers = account.headers
        try:
            await self._with_body(request, key, answer, account)
        finally:
            account.end()

    async def _with_body(self, request: Request, key: Key, answer: Answer, account: Account | None) -> None:
        route, shared = request.route, self._keys.several
        hold = Hold(self._bodies, key.id, shared=shared)
        try:
            limit = self._settings.max_body_bytes if route.json or route.is_upload else SMALL_BYTES
            intake = Intake(request.scope, request.receive, limit, hold)
            enter = partial(self._gate.enter, key.id, shared=shared) if account else None
            read, pass_ = partial(self._found, intake, route, key), partial(self._pass, request, answer, account)
            await in_turn(enter, intake, request.receive, read, pass_)
        finally:
            hold.release()

    async def _found(self, intake: Intake, route: Route, key: Key) -> Body:
        raw = await intake.read()
        if not route.json:
            return Body(raw)
        if len(raw) <= SMALL_BYTES:
            return body.rewrite(raw, route, self._settings, key.models)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parsers, body.rewrite, raw, route, self._settings, key.models)

    async def _pass(
        self, request: Request, answer: Answer, account: Account | None, found: Body, gone: Callable[[], None]
    ) -> None:
        asked = request.asked(found)
        answer.reshape = partial(self._reshape, request.scope, asked)
        model = found.model or next(iter(self._settings.served_names), "")
        scope, meter = with_body(request.scope, found.raw), None
        if account:
            meter = account.watch(answer, model, body_bytes=len(found.raw), hides_usage=found.hides_usage)
            scope = shortcut.with_way(scope, shortcut.straight(meter, answer)) if self._is_short else scope
        try:
            await self._app(scope, replay(found.raw, request.receive, gone), meter or answer)
        except Exception as error:
            refusal = remedies.refusal(asked, error)
            if refusal is None or answer.started:
                raise
            raise refusal from error

    def _page(self, request: Request) -> Callable[[Answer], Awaitable[None]] | None:
        if request.is_ours and request.path == OVER_PATH:
            return self._started
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

    async def _started(self, answer: Answer) -> None:
        self._start.end()
        if self._link:
            self._link.send(STARTED)
        await answer.give(200, b"{}\n")

    async def _front(self, scope: Scope, answer: Answer) -> None:
        await answer.give(200, pages.front(self._names(scope), str(scope.get("root_path", ""))))

    async def _chat(self, _: Scope, answer: Answer) -> None:
        page, headers = pages.chat()
        type_ = next((value for name, value in headers.items() if name.lower() == "content-type"), "text/html")
        others = tuple((name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS)
        await answer.give(200, page, type_.encode(), others)

    async def _facts(self, scope: Scope, answer: Answer) -> None:
        required, known = self._keys.required, await self._numbers()
        await answer.give(200, pages.facts(self._settings, self._names(scope), known, keys=required))

    async def _metrics(self, _: Scope, answer: Answer) -> None:
        known = await self._numbers()
        text = pages.metrics(known) + pages.quantization(self._service, self._settings.quantization)
        await answer.give(200, text + pages.usage(self._service, known), pages.TEXT)

    async def _numbers(self) -> Numbers:
        """Of all API processes."""
        return await self._link.sums() if self._link else self._counted()

    def _counted(self) -> Numbers:
        """Of this process; places and replicas are the owner's where there is one."""
        accounts, limiter = self._accounts, self._accounts.limiter
        held = [] if isinstance(self._gate, SharedGate) else [numbers.of_gate(self._gate)]
        held += [] if isinstance(self._replicas, SharedLimits) else [numbers.of_replicas(self._replicas)]
        own: Numbers = Counter()
        own[numbers.UNREAD,], own[numbers.ENDED,] = self._stock.unread_bytes, self._stock.ended
        own[numbers.BODIES,], own[numbers.UNRECORDED,] = self._bodies.shares.held_bytes, accounts.journals.unrecorded
        own[numbers.KEYS_WRONG,] = int(self._keys.is_wrong)
        own.update({(numbers.REFUSED, str(status)): number for status, number in self._refused.items()})
        own.update({(numbers.OVER_LIMIT, *place): number for place, number in limiter.refused.items()})
        return numbers.added([own, numbers.usage(accounts.totals), *held])

    async def _report(self, link: Link) -> None:
        while True:
            link.send(STEPS, rule.OF_THIS_PROCESS.steps)
            await asyncio.sleep(rule.EVERY_S)

    def _names(self, scope: Scope) -> tuple[str, ...]:
        return names.served(self._settings, scope.get("app"))

    def _reshape(self, scope: Scope, asked: Asked, status: int, content: bytes) -> tuple[int, bytes]:
        known, model = self._names(scope), asked.body.model
        if status == 404 and not asked.route.gives and model and known and model not in known:
            return status, names.unknown(model, known).body
        return remedies.mended(asked, status, content)


_OWN_HEADERS = ("content-type", "content-length")


def _progress(environment: Mapping[str, str]) -> rule.Progress:
    """The supervisor has read the variable before us."""
    rule.OF_THIS_PROCESS.floor_s = float(environment.get(rule.VARIABLE) or rule.DEFAULT_S)
    return rule.OF_THIS_PROCESS


def _request(scope: Scope, receive: Receive, id_: str, settings: ApiSettings) -> Request:
    raw_path = scope.get("raw_path") or b""
    paths.check(scope["path"], raw_path)
    headers = replaced(scope["headers"], (REQUEST_ID, id_.encode()), drop=(REQUEST_ID,))
    tidied = {**scope, "path": paths.tidy(scope["path"]), "headers": headers}
    if raw_path:
        tidied["raw_path"] = paths.tidy(raw_path.decode("latin-1")).encode("latin-1")
    path = routes.route_path(tidied)
    return Request(tidied, receive, path, routes.find(path, settings.opened_routes))


def _is_preflight(request: Request) -> bool:
    # A browser asks without the key whether it may ask with it.
    headers = request.scope["headers"]
    asks = header(headers, b"origin") and header(headers, b"access-control-request-method")
    return request.method == "OPTIONS" and bool(asks)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)
