"""HTTP in front of the service: paths, statuses and texts, nothing else.

`POST /ls`, `GET /ls/view` and the greeting are the original manual's; `/v1/leases` is for serving pods, `/healthz`
and `/metrics` for the cluster. Endpoints that touch the store are plain functions: the framework runs them in its
thread pool, so a commit never holds up the event loop.
"""

import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from windlass_license import __version__
from windlass_license.clock import GuardedClock, Seconds
from windlass_license.errors import FileRefusal, LicenseFileError
from windlass_license.limits import BodyLimit
from windlass_license.metrics import Metrics
from windlass_license.model import License, State
from windlass_license.service import LicenseService
from windlass_license.settings import Settings
from windlass_license.store import Store
from windlass_license.upload import HOW_TO, read_upload
from windlass_license.view import view
from windlass_license.wire import LeaseBody, answer_json

GREETING = "windlass license server\n"
_STATUS = {FileRefusal.TOO_LARGE: 413}


def create_app(settings: Settings, wall: Seconds = time.time, monotonic: Seconds = time.monotonic) -> FastAPI:
    """The whole server for these settings; the clocks are parameters so that tests can set them."""
    store = Store(settings.data_dir, settings.audit_rows_max)
    with store.transaction() as tx:
        floor = None if settings.trust_clock else tx.last_seen()
    service = LicenseService(store, GuardedClock(floor, wall, monotonic), settings.public_keys, settings.ttl)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(title="Windlass license server", version=__version__, lifespan=lifespan)
    metrics = Metrics(service.in_force)
    _add_probes(app, service, metrics)
    _add_license_paths(app, service, metrics, settings)
    _add_lease_paths(app, service, metrics)
    app.add_middleware(BodyLimit)
    app.add_exception_handler(RequestValidationError, _explain_bad_request)
    return app


def _add_probes(app: FastAPI, service: LicenseService, metrics: Metrics) -> None:
    @app.get("/", response_class=PlainTextResponse)
    async def greeting() -> str:
        """Say who answers; the manual's way to see that clients reach the server."""
        return GREETING

    @app.get("/healthz", response_class=PlainTextResponse)
    def healthz() -> str:
        """Answer when the store can be read; having no license yet is healthy."""
        service.license_in_force()
        return "ok\n"

    @app.get("/metrics")
    def read_metrics() -> Response:
        """Prometheus metrics."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _add_license_paths(app: FastAPI, service: LicenseService, metrics: Metrics, settings: Settings) -> None:
    admin = Depends(_admin_only(settings.admin_token))

    @app.post("/ls", response_class=PlainTextResponse, dependencies=[admin])
    async def upload(request: Request) -> Response:
        """Replace every license in force by the form's `file`, or refuse it and change nothing."""
        try:
            blob = await read_upload(request, settings.upload_max_bytes)
        except LicenseFileError as error:
            await run_in_threadpool(service.refuse_upload, error)
            return _refused(error, metrics)
        try:
            license_ = await run_in_threadpool(service.upload, blob)
        except LicenseFileError as error:
            return _refused(error, metrics)
        metrics.count_upload("accepted")
        return PlainTextResponse(f"license file successfully uploaded: {summary(license_)}\n")

    @app.get("/ls/view")
    def read_view() -> Response:
        """The license in force as YAML."""
        license_ = service.license_in_force()
        if license_ is None:
            return PlainTextResponse(f"no license is in force; {HOW_TO}\n", 404)
        return Response(view(license_), media_type="application/yaml")

    @app.get("/ls/audit", dependencies=[admin])
    def read_audit(limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> Response:
        """The newest audit records, one JSON object a line, oldest first."""
        return Response("".join(f"{row}\n" for row in service.audit_tail(limit)), media_type="application/x-ndjson")


def _add_lease_paths(app: FastAPI, service: LicenseService, metrics: Metrics) -> None:
    ttl_s = int(service.ttl.total_seconds())

    @app.post("/v1/leases")
    def lease(body: LeaseBody) -> JSONResponse:
        """Grant, renew or refuse a lease on all of the pod's GPUs."""
        with metrics.lease_seconds.time():
            answer = service.lease(body.request())
        metrics.count_lease(answer.verdict)
        status = 403 if answer.verdict.state is State.REFUSED else 200
        return JSONResponse(answer_json(answer, ttl_s), status)

    @app.delete("/v1/leases/{lease_id}", status_code=204)
    def release(lease_id: str) -> Response:
        """Give the GPUs of a lease back; done also when there is no such lease."""
        service.release(lease_id)
        return Response(status_code=204)


def summary(license_: License) -> str:
    """What is in force, in one line."""
    limit = f"{license_.limit} at a time" if license_.limit else "no limit"
    expires = license_.expires_last.isoformat()
    gpus = "1 GPU" if len(license_.gpus) == 1 else f"{len(license_.gpus)} GPUs"
    return f"customer {license_.customer}, appid {license_.appid}, {gpus}, {limit}, expires {expires}"


def _refused(error: LicenseFileError, metrics: Metrics) -> PlainTextResponse:
    metrics.count_upload(error.reason)
    return PlainTextResponse(f"license file refused, nothing changed: {error}\n", _STATUS.get(error.reason, 400))


def _admin_only(token: str | None) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        if token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
        if scheme.lower() != "bearer" or not right:
            wrong = "the admin token is wrong" if given else "an admin token is needed"
            detail = f'{wrong}; send the header "Authorization: Bearer <token>"'
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})

    return check


async def _explain_bad_request(_: Request, error: Exception) -> JSONResponse:
    """Name the fields that are wrong, in one sentence instead of the framework's list."""
    if not isinstance(error, RequestValidationError):
        raise error
    where = (".".join(str(step) for step in row["loc"][1:]) or "body" for row in error.errors())
    what = "; ".join(f"{place}: {row['msg']}" for place, row in zip(where, error.errors(), strict=True))
    return JSONResponse({"reason": "BadRequest", "message": f"the request is not understood: {what}"}, 422)
