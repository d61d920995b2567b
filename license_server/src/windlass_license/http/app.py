"""HTTP in front of the service: paths, statuses and texts, nothing else.

`POST /ls`, `GET /ls/view` and the greeting are the original manual's; `/v1/leases` is for serving pods, `/healthz`,
`/readyz` and `/metrics` for the cluster. Whatever takes longer than a moment runs in a thread, never in the event loop;
whatever is open to everybody is made once for all who ask (`remembered`).
"""

import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from windlass_license import __version__
from windlass_license.clock import GuardedClock, Seconds
from windlass_license.cluster.callers import Callers
from windlass_license.election.activation import Activation
from windlass_license.election.data_lock import Election, FileLock
from windlass_license.errors import FileRefusal, LicenseFileError, NotNowError, StandByError, UnknownCallerError
from windlass_license.http.admin import PROXIED, admin_only
from windlass_license.http.audit_page import add_audit_path
from windlass_license.http.description import (
    ADMIN,
    FILE,
    NOT_NOW,
    UPLOAD_OPERATION,
    YAML,
)
from windlass_license.http.lease_path import add_lease_paths
from windlass_license.http.metrics import Metrics
from windlass_license.http.remembered import EachSecond, LicenseViews
from windlass_license.http.upload import read_upload
from windlass_license.http.wire import BadRequestError, TooLargeError, explain
from windlass_license.license_file.answer_key import load_or_make
from windlass_license.license_file.keys import public_pem
from windlass_license.rules.gate import NO_LICENSE
from windlass_license.rules.model import License
from windlass_license.service import LicenseService, Rules
from windlass_license.settings import Settings
from windlass_license.storage.store import Store, damaged

GREETING = "windlass license server\n"
AllowOlder = Annotated[bool, Query(alias="allowOlder", description="let a license with a lower serial in")]
_STATUS = {FileRefusal.TOO_LARGE: 413}


Problem = NotNowError | UnknownCallerError | BadRequestError | TooLargeError
PROBLEMS: dict[type[Problem], tuple[int, dict[str, str]]] = {
    NotNowError: (503, {"Retry-After": "2"}),
    UnknownCallerError: (401, {"WWW-Authenticate": "Bearer"}),
    BadRequestError: (422, {}),
    TooLargeError: (413, {}),
}
"""Errors that decide nothing: the status of their answer, and its headers."""


def create_app(
    settings: Settings,
    wall: Seconds = time.time,
    monotonic: Seconds = time.monotonic,
    election: Election | None = None,
    turned_away: Mapping[str, int] | None = None,
    callers: Callers | None = None,
) -> FastAPI:
    """The whole server for these settings; clocks and election are parameters so that tests can set them.

    Without `callers` no token is asked for: whoever reaches the server leases under any name.
    """
    activation = Activation(election or FileLock(settings.data_dir), _opener(settings, wall, monotonic))
    metrics = Metrics(activation.standing, turned_away or {})
    activation.observe = metrics.observe_commit
    activation.step()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        activation.start()
        yield
        await run_in_threadpool(activation.stop)
        if callers is not None:
            callers.close()

    # No page of the framework, for it would load scripts from outside the cluster; the description is made once.
    app = FastAPI(title="Windlass license server", version=__version__, lifespan=lifespan, openapi_url=None)
    add_lease_paths(app, activation, metrics, int(settings.ttl.total_seconds()), callers)
    _add_probes(app, activation, monotonic)
    _add_figures(app, metrics, monotonic)
    _add_license_paths(app, activation, metrics, settings)
    add_audit_path(app, activation, admin_only(settings.admin_token))
    app.add_exception_handler(RequestValidationError, _explain_bad_request)
    app.add_exception_handler(ClientDisconnect, _client_left)
    for kind, (status, headers) in PROBLEMS.items():
        app.add_exception_handler(kind, partial(_problem, status, headers))
    return app


def _opener(settings: Settings, wall: Seconds, monotonic: Seconds) -> Callable[[Callable[[], None]], LicenseService]:
    def open_service(fence: Callable[[], None]) -> LicenseService:
        store = Store(settings.data_dir)
        try:
            with store.transaction() as tx:
                floor = None if settings.trust_clock else tx.last_seen()
            key = load_or_make(settings.data_dir, settings.answer_key)
            rules = Rules(settings.public_keys, settings.ttl, settings.audit, settings.leases, key)
            return LicenseService(store, GuardedClock(floor, wall, monotonic), rules, fence)
        except (sqlite3.DatabaseError, ValueError, TypeError, OverflowError) as error:
            store.close()
            raise damaged(settings.data_dir, error) from error
        except BaseException:
            store.close()
            raise

    return open_service


def _add_probes(app: FastAPI, activation: Activation, monotonic: Seconds) -> None:
    store = EachSecond(lambda: _fault(activation), monotonic)

    @app.get("/", response_class=PlainTextResponse)
    async def greeting() -> str:
        """Say who answers; the manual's way to see that clients reach the server."""
        return GREETING

    @app.get("/healthz", response_class=PlainTextResponse, responses=NOT_NOW)
    async def healthz() -> str:
        """Answer while the process works: a stand-by does, and so does a server without a license."""
        activation.check_alive()
        fault = await store.get()
        if isinstance(fault, StandByError):
            return f"{fault}\n"
        if fault is not None:
            raise fault
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse, responses=NOT_NOW)
    async def readyz() -> str:
        """Answer on the active replica only; requests belong there."""
        activation.active()
        return "ok\n"


def _fault(activation: Activation) -> NotNowError | None:
    """Why this replica cannot read its store."""
    try:
        activation.active().service.check()
    except NotNowError as error:
        return error
    return None


def _add_figures(app: FastAPI, metrics: Metrics, monotonic: Seconds) -> None:
    figures = EachSecond(metrics.text, monotonic)
    description = cache(lambda: json.dumps(app.openapi()).encode())

    @app.get("/metrics", response_class=PlainTextResponse)
    async def read_metrics() -> Response:
        """Prometheus metrics, at most a second old."""
        return Response(await figures.get(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/openapi.json", include_in_schema=False)
    async def read_description() -> Response:
        return Response(description(), media_type="application/json")


def _add_license_paths(app: FastAPI, activation: Activation, metrics: Metrics, settings: Settings) -> None:
    may_see_all = admin_only(settings.admin_token)
    admin, views = Depends(may_see_all), LicenseViews()

    @app.post("/ls", response_class=PlainTextResponse, dependencies=[admin], **UPLOAD_OPERATION)
    async def upload(request: Request, allow_older: AllowOlder = False) -> Response:
        """Replace every license in force by the form's `file`, or refuse it and change nothing."""
        active = activation.active()
        try:
            blob = await read_upload(request, settings.upload_max_bytes)
            license_, install = await run_in_threadpool(active.service.upload, blob, allow_older)
            if (refused := await active.run(install)) is not None:
                raise refused
        except LicenseFileError as error:
            await active.run(active.service.refuse_upload(error))
            metrics.count_upload(error.reason)
            text = f"license file refused, nothing changed: {error}\n"
            return PlainTextResponse(text, _STATUS.get(error.reason, 400))
        metrics.count_upload("accepted")
        return PlainTextResponse(f"license file successfully uploaded: {summary(license_)}\n")

    @app.get("/ls/answer-key", response_class=PlainTextResponse, responses=NOT_NOW)
    async def read_answer_key() -> str:
        """The public key of this server's answers, for `windlass-license issue --answer-key`."""
        return public_pem(activation.active().service.answer_key())

    @app.get("/ls/file", response_class=Response, dependencies=[admin], responses=FILE | ADMIN | NOT_NOW)
    def read_file() -> Response:
        """The file of the license in force, as it was uploaded, for `windlass-license issue --from`."""
        blob = activation.active().service.license_file()
        if blob is None:
            return PlainTextResponse(f"{NO_LICENSE}\n", 404)
        return Response(blob, media_type="application/octet-stream")

    @app.get("/ls/view", response_class=Response, responses=YAML | ADMIN | NOT_NOW)
    async def read_view(request: Request) -> Response:
        """The license in force as YAML: with its GPUs for the admin, as numbers of GPUs for anybody else."""
        license_ = activation.active().service.license_in_force()
        whole = settings.admin_token is None or "authorization" in request.headers or PROXIED in request.headers
        if whole:
            await may_see_all(request)
        if license_ is None:
            return PlainTextResponse(f"{NO_LICENSE}\n", 404)
        return Response(await views.of(license_, whole=whole), media_type="application/yaml")


def summary(license_: License) -> str:
    """What is in force, in one line."""
    limit = f"{license_.limit} at a time" if license_.limit else "no limit"
    expires = license_.expires_last.isoformat()
    gpus = "1 GPU" if len(license_.gpus) == 1 else f"{len(license_.gpus)} GPUs"
    return f"customer {license_.customer}, appid {license_.appid}, {gpus}, {limit}, expires {expires}"


async def _explain_bad_request(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    sentence = explain((row["loc"][1:], row["msg"]) for row in error.errors())
    return await _problem(422, {}, request, BadRequestError(sentence))


async def _client_left(request: Request, _: Exception) -> Response:
    """Answer a client that left amid its body: nobody hears it, and the log has no traceback of it."""
    return await _problem(422, {}, request, BadRequestError("the request ends before its body does"))


async def _problem(status: int, headers: dict[str, str], _: Request, error: Exception) -> Response:
    if not isinstance(error, Problem):
        raise error
    body = {"reason": error.reason, "message": str(error)}
    return Response(json.dumps(body, ensure_ascii=False), status, headers, "application/json")
