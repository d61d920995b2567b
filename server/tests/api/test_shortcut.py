"""Pieces of a stream past the middleware: a real Starlette application with a real guard, and what each layer sees."""

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from windlass.api import shortcut
from windlass.api.guard import Guard
from windlass.front import connections
from windlass.front.settings import SETTINGS_VARIABLE, ApiSettings

PATH = "/v1/chat/completions"
PIECES = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number for number in range(5)]
LAST_WHOLE = PIECES[2]
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":8,"completion_tokens":5}}\n\n',
    b"data: [DONE]\n\n",
)
TYPE = "text/event-stream"
SETTINGS = ApiSettings(served_names=("demo",))


class Spy:
    """Middleware that keeps what it passes on."""

    def __init__(self, app: Any, seen: list[str]) -> None:
        self._app, self._seen = app, seen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def watched(message: MutableMapping[str, Any]) -> None:
            if scope["type"] == "http":
                self._seen.append("piece" if message.get("more_body") else message["type"].rpartition(".")[2])
            await send(message)

        await self._app(scope, receive, watched)


class Line:
    """A connection: `write` is the server's own way, and `stops_at` the piece behind which it takes no more."""

    def __init__(self, stops_at: int = -1) -> None:
        self.write_paused, self._stops_at = False, stops_at
        self.got: list[MutableMapping[str, Any]] = []

    async def write(self, message: MutableMapping[str, Any]) -> None:
        self.got.append(message)
        self.write_paused = len(self.got) == self._stops_at

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)


async def whole(request: Request) -> StreamingResponse:
    await request.body()

    async def stream() -> AsyncIterator[bytes]:
        for piece in (*PIECES, *USAGE):
            yield piece
            if piece == LAST_WHOLE and request.headers.get("x-breaks"):
                raise RuntimeError("the engine broke")

    return StreamingResponse(stream(), media_type=TYPE)


class Served:
    """The application with its middleware, started."""

    def __init__(self, **settings: Any) -> None:
        self.seen: list[str] = []
        environment = {SETTINGS_VARIABLE: SETTINGS.to_json(), "WINDLASS_API_KEYS": ""}
        layers = [
            Middleware(Guard, environment=environment), Middleware(Spy, seen=self.seen),
            Middleware(CORSMiddleware, allow_origins=["*"], **settings),
        ]  # fmt: skip
        self.app = Starlette(routes=[Route(PATH, whole, methods=["POST"])], middleware=layers)

    async def ask(self, line: Line, **headers: str) -> None:
        """One streamed request, between start and end of the application."""
        body = json.dumps({"model": "demo", "stream": True, "messages": [{"role": "user", "content": "a"}]}).encode()
        rows = {"content-type": "application/json", "content-length": str(len(body)), "origin": "http://a", **headers}
        extensions = {connections.EXTENSION: connections.Connection(line, lambda: None, line.write)}
        scope = {
            "type": "http", "method": "POST", "path": PATH, "raw_path": PATH.encode(), "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), text.encode()) for name, text in rows.items()],
            "extensions": extensions,
        }  # fmt: skip
        first = [body]

        async def receive() -> MutableMapping[str, Any]:
            if first:
                return {"type": "http.request", "body": first.pop(), "more_body": False}
            return await asyncio.Future()  # the client stays

        async with self._started():
            await self.app(scope, receive, line.write)

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[None]:
        messages: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        started = asyncio.Event()

        async def send(message: MutableMapping[str, Any]) -> None:
            assert message["type"].endswith(".complete"), message
            started.set()

        life = asyncio.create_task(self.app({"type": "lifespan"}, messages.get, send))
        await messages.put({"type": "lifespan.startup"})
        await started.wait()
        try:
            yield
        finally:
            await messages.put({"type": "lifespan.shutdown"})
            await life


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spy passes for a layer that reads heads alone."""
    name = f"{Spy.__module__}.{Spy.__qualname__}"
    monkeypatch.setattr(shortcut, "HEADER_ONLY_MIDDLEWARE", shortcut.HEADER_ONLY_MIDDLEWARE | {name})


def guard_of(served: Served) -> Guard:
    layer: Any = served.app.middleware_stack
    while not isinstance(layer, Guard):
        layer = layer.app
    return layer


ALL = b"".join((*PIECES, USAGE[1]))
"""Without the count of tokens, for which the client has not asked."""


@pytest.mark.usefixtures("known")
async def test_pieces_go_past_the_middleware() -> None:
    """It sees head and end; the client has all in order, with what middleware wrote into the head."""
    served, line = Served(), Line()
    await served.ask(line)
    assert served.seen == ["start", "body"]
    assert line.body == ALL
    head = dict(line.got[0]["headers"])
    assert (head[b"access-control-allow-origin"], b"x-request-id" in head) == (b"*", True)
    assert [message["more_body"] for message in line.got[1:]] == [True] * 6 + [False]


async def test_a_layer_that_nobody_knows_sees_every_piece() -> None:
    """It may change them."""
    served, line = Served(), Line()
    await served.ask(line)
    assert served.seen == ["start", *["piece"] * 7, "body"]
    assert line.body == ALL


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("stops_at", [2, 3, 5])
async def test_a_slow_client_has_all_in_order(stops_at: int) -> None:
    """Its pieces wait in the outbox, and those after them too."""
    served, line = Served(), Line(stops_at)
    await served.ask(line)
    assert line.body == ALL


@pytest.mark.usefixtures("known")
async def test_an_answer_that_breaks_off_is_no_whole_one() -> None:
    """The error ends the request as it does without the short way: after the pieces that came."""
    served, line = Served(), Line()
    with pytest.raises(RuntimeError, match="the engine broke"):
        await served.ask(line, x_breaks="yes")
    assert line.body == b"".join(PIECES[:3])
    assert line.got[-1]["more_body"]


@pytest.mark.parametrize("usage", [USAGE, USAGE[1:]], ids=["the engine's count", "events"])
async def test_tokens_are_counted_as_on_the_long_way(
    usage: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """By the engine's count, which the client does not see, or else by events."""
    monkeypatch.setitem(globals(), "USAGE", usage)
    counted = []
    for way in ("long", "short"):
        if way == "short":
            request.getfixturevalue("known")
        served = Served()
        await served.ask(Line())
        guard = guard_of(served)
        assert guard.engine.is_direct == (way == "short")
        counted += guard.state.accounts.totals.values()
    assert counted[0] == counted[1]
    assert counted[0].tokens_out >= len(PIECES)


def test_middleware_that_collects_bodies_closes_the_way() -> None:
    """The metrics' middleware does so for the handlers that it is given."""
    names = "prometheus_fastapi_instrumentator.middleware", "PrometheusInstrumentatorMiddleware"
    metrics = type(names[1], (), {"__module__": names[0], "__qualname__": names[1]})
    opened, closed = (Starlette(middleware=[Middleware(metrics, body_handlers=given)]) for given in ([], ["/v1"]))
    assert (shortcut.is_open(opened), shortcut.is_open(closed), shortcut.is_open(object())) == (True, False, False)


def test_of_two_guards_none_is_passed_by() -> None:
    """The outer one would count nothing."""
    guards = [Middleware(Guard), Middleware(Guard)]
    opened = [shortcut.is_open(Starlette(middleware=guards[:number])) for number in (1, 2)]
    assert opened == [True, False]


@pytest.mark.usefixtures("known")
async def test_an_answer_that_is_no_stream_of_events_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its count of tokens may lie in two pieces."""
    monkeypatch.setitem(globals(), "TYPE", "application/json")
    halves = [b'{"usage":{"prompt_tokens":3,"total', b'_tokens":8,"completion_tokens":5}}']
    monkeypatch.setitem(globals(), "PIECES", halves)
    monkeypatch.setitem(globals(), "USAGE", (b"",))
    served, line = Served(), Line()
    await served.ask(line)
    assert line.body == b"".join(PIECES)
    (total,) = guard_of(served).state.accounts.totals.values()
    assert (total.tokens_out, total.estimated) == (5, 0)


def test_streams_are_shortened_once() -> None:
    """However many guards a process has."""
    shortcut.install()
    first = StreamingResponse.__call__
    shortcut.install()
    assert StreamingResponse.__call__ is first
