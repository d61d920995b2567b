"""The application: routes, errors as sentences, the process' own probes, and the pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from windlass_base.kube.errors import ClientError

from windlass_console import __version__
from windlass_console.errors import ConsoleError, NotThereError, document_of, status_of
from windlass_console.http import cluster, pages, planning, services, session, streams
from windlass_console.http.asking import Console, The
from windlass_console.http.guard import Guard
from windlass_console.identity.access import MakeAccess
from windlass_console.identity.pool import Identities
from windlass_console.identity.seal import Seal
from windlass_console.settings import Settings

SHOWN_MAX = 300  # characters of a part of a request in an error
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
    )
    app.state.console = console
    for router in ROUTERS:
        app.include_router(router)
    _add_errors(app)
    _add_own(app)
    return Guard(app, settings.prefix, settings.origins)


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
        sentence = "; ".join(f"{row['field']}: {row['message']}" for row in fields) or "the request cannot be read"
        return JSONResponse({"error": sentence, "reason": "BadRequest", "fields": fields}, 400)

    async def not_there(request: Request, error: Exception) -> JSONResponse:
        status = error.status_code if isinstance(error, HTTPException) else 404
        sentence = f"{request.method} {request.url.path[:SHOWN_MAX]} is nothing here; see api/openapi.json"
        return JSONResponse({"error": sentence, "reason": "NotFound", "fields": []}, status)

    app.add_exception_handler(ClientError, refused)
    app.add_exception_handler(ConsoleError, refused)
    app.add_exception_handler(RequestValidationError, unusable)
    app.add_exception_handler(HTTPException, not_there)


def _where(row: dict[str, Any]) -> str:
    return ".".join(str(part)[:64] for part in row.get("loc", ()) if part not in ("body", "query", "path"))[:SHOWN_MAX]


def _add_own(app: FastAPI) -> None:
    """Probes, and the files of the pages at every other address."""

    @app.get("/healthz", response_class=PlainTextResponse, tags=["process"])
    async def healthz() -> str:
        """The process serves."""
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse, tags=["process"])
    async def readyz() -> str:
        """The process serves; the API server answers each user by itself."""
        return "ok\n"

    @app.get("/{path:path}", include_in_schema=False)
    async def page(path: str, request: Request, console: The) -> Response:
        """A file of the pages."""
        if path.startswith("api/"):
            raise NotThereError(f"GET /{path[:SHOWN_MAX]} is nothing here; see api/openapi.json")
        return pages.answer(console.pages, request, path)
