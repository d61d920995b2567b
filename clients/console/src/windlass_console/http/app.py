"""The application: routes, errors as sentences, the process' own probes, and the pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Scope
from windlass_base.kube.errors import ClientError

from windlass_console import __version__
from windlass_console.errors import ConsoleError, NotThereError, document_of, status_of
from windlass_console.http import cluster, pages, planning, services, session, streams
from windlass_console.http.asking import BY_COOKIE, BY_HEADER, Console, The
from windlass_console.http.bodies import WhoOf
from windlass_console.http.guard import Guard
from windlass_console.identity.access import MakeAccess
from windlass_console.identity.pool import Identities
from windlass_console.identity.seal import Seal
from windlass_console.settings import Settings

NO_OBJECT = "the body is no JSON object; send Content-Type: application/json"
NO_OBJECT_TYPES = ("missing", "model_type", "model_attributes_type", "dict_type")  # pydantic's words for it
SHOWN_MAX = 300  # characters of a part of a request in an error
# What the framework refuses by itself: a sentence and a reason by the status.
STATUSES = {
    400: ("the request's body cannot be read; send JSON", "BadRequest"),
    404: ("{method} {path} is nothing here; see api/openapi.json", "NotFound"),
    405: ("{path} does not take {method}; see api/openapi.json", "MethodNotAllowed"),
}
# `streams` first: /api/services/watch is no namespace.
ROUTERS = (session.router, streams.router, services.router, planning.router, cluster.router)


def create_app(settings: Settings, access: MakeAccess) -> Guard:
    """The whole console as an ASGI application."""
    console = Console(settings, Seal(settings.session_key), Identities(settings, access), pages.load())
    app = FastAPI(
        title="Windlass console",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        servers=[{"url": settings.prefix or "/"}],
        lifespan=_lifespan(console),
        redirect_slashes=False,  # the redirect would lead to the Host that the request names
    )
    app.state.console = console
    for router in ROUTERS:
        app.include_router(router)
    _add_errors(app)
    _add_own(app)
    return Guard(app, _who_of(console), settings.prefix, settings.origins)


def _who_of(console: Console) -> WhoOf:
    """What a request shows of who asks, before its body is read. A token in a header is checked by the API server."""

    def who_of(scope: Scope) -> str:
        request = HTTPConnection(scope)
        if console.seal.open(request.cookies.get(console.settings.cookie_name, ""), time.time()) is not None:
            return BY_COOKIE
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return BY_HEADER if scheme.lower() == "bearer" and given else ""

    return who_of


def _lifespan(console: Console) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(console.identities.sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await sweeper
            await console.identities.aclose()

    return lifespan


def _add_errors(app: FastAPI) -> None:
    """Every refusal is a sentence in the same shape."""

    async def refused(_: Request, error: Exception) -> JSONResponse:
        known = error if isinstance(error, ClientError | ConsoleError) else ConsoleError(str(error))
        return JSONResponse(document_of(known), status_of(known)[0])

    async def unusable(_: Request, error: Exception) -> JSONResponse:
        rows = error.errors() if isinstance(error, RequestValidationError) else ()
        fields = [{"field": _where(row), "message": str(row.get("msg", ""))[:SHOWN_MAX]} for row in rows]
        if any(row.get("loc") == ("body",) and row.get("type") in NO_OBJECT_TYPES for row in rows):
            return JSONResponse({"error": NO_OBJECT, "reason": "BadRequest", "fields": []}, 400)
        sentence = "; ".join(f"{row['field']}: {row['message']}" for row in fields) or "the request cannot be read"
        return JSONResponse({"error": sentence, "reason": "BadRequest", "fields": fields}, 400)

    async def refused_by_framework(request: Request, error: Exception) -> JSONResponse:
        known = error if isinstance(error, HTTPException) else HTTPException(404)
        sentence, reason = STATUSES.get(known.status_code, ("the request cannot be served", "BadRequest"))
        shown = sentence.format(method=request.method, path=request.url.path[:SHOWN_MAX])
        return JSONResponse({"error": shown, "reason": reason, "fields": []}, known.status_code, known.headers)

    async def failed(_: Request, __: Exception) -> JSONResponse:
        sentence = "the console failed at this request; its log says why"
        return JSONResponse({"error": sentence, "reason": "Internal", "fields": []}, 500)

    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(ClientError, refused)
    app.add_exception_handler(ConsoleError, refused)
    app.add_exception_handler(RequestValidationError, unusable)
    app.add_exception_handler(HTTPException, refused_by_framework)


def _where(row: dict[str, Any]) -> str:
    return ".".join(str(part)[:64] for part in row.get("loc", ()) if part not in ("body", "query", "path"))[:SHOWN_MAX]


def _add_own(app: FastAPI) -> None:
    """Probes, and the files of the pages at every other address."""

    @app.head("/healthz", response_class=PlainTextResponse, include_in_schema=False)
    @app.get("/healthz", response_class=PlainTextResponse, tags=["process"])
    async def healthz() -> str:
        """The process serves."""
        return "ok\n"

    @app.head("/readyz", response_class=PlainTextResponse, include_in_schema=False)
    @app.get("/readyz", response_class=PlainTextResponse, tags=["process"])
    async def readyz() -> str:
        """The process serves; the API server answers each user by itself."""
        return "ok\n"

    @app.head("/{path:path}", include_in_schema=False)
    @app.get("/{path:path}", include_in_schema=False)
    async def page(path: str, request: Request, console: The) -> Response:
        """A file of the pages."""
        if path.startswith("api/"):
            if request.method == "HEAD":  # a route of the API may be there: it takes no HEAD
                raise HTTPException(405)
            raise NotThereError(f"{request.method} /{path[:SHOWN_MAX]} is nothing here; see api/openapi.json")
        return pages.answer(console.pages, request, path)
