"""A console back end in one file: LLMServices over HTTP for a web page, through the typed client only.

    pip install windlass-client fastapi uvicorn
    uvicorn app:app --host 127.0.0.1 --port 8080

It runs as whoever the kubeconfig or the pod's service account says. A real console puts its own login in front, and
its users' rights behind: one client for each user's token (`token_access`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from windlass_client import (
    AlreadyExistsError,
    AsyncClient,
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    LLMService,
    NoFactsError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
    find_access,
)
from windlass_client.schema import json_schema

STATUS_CODES: dict[type[ClientError], int] = {
    AlreadyExistsError: 409,
    ConflictError: 409,
    ForbiddenError: 403,
    InvalidError: 422,
    NoFactsError: 422,
    NotFoundError: 404,
    UnauthorizedError: 401,
    UnreachableError: 503,
}
HEARTBEAT_S = 15.0


@asynccontextmanager
async def connected(application: FastAPI) -> AsyncIterator[None]:
    """One client for the life of the process."""
    async with AsyncClient(find_access(), field_manager="example-console") as client:
        application.state.client = client
        yield


app = FastAPI(title="Windlass console", lifespan=connected)


def the_client(request: Request) -> AsyncClient:
    """The client that every route uses."""
    client: AsyncClient = request.app.state.client
    return client


Client = Annotated[AsyncClient, Depends(the_client)]
Document = Annotated[dict[str, Any], Body()]
SERVICES = "/api/namespaces/{namespace}/services"


@app.exception_handler(ClientError)
async def refused(_: Request, error: Exception) -> JSONResponse:
    """The sentence for the user; for each field that a form can mark, its own."""
    code = next((code for kind, code in STATUS_CODES.items() if isinstance(error, kind)), 500)
    fields = [{"field": row.field, "message": row.message} for row in getattr(error, "problems", ())]
    return JSONResponse({"error": str(error), "fields": fields}, status_code=code)


@app.get("/api/schema")
async def schema() -> dict[str, Any]:
    """What a form builder makes the form from."""
    return json_schema()


@app.get(SERVICES)
async def list_services(client: Client, namespace: str) -> list[LLMService]:
    """All services of a namespace."""
    return await client.list(namespace)


@app.post(SERVICES, status_code=201)
async def create(client: Client, namespace: str, document: Document) -> LLMService:
    """Create one from what the form sends."""
    return await client.create(document, namespace)


@app.post(SERVICES + ":plan")
async def plan(client: Client, namespace: str, document: Document) -> dict[str, Any]:
    """What would be planned: `{"service": …, "config": the model's config.json}`; nothing is applied."""
    preview = await client.preview(document.get("service") or {}, namespace, model=document.get("config"))
    return preview.to_dict()


@app.get(SERVICES + ":watch")
async def watch(client: Client, namespace: str) -> StreamingResponse:
    """Server-sent events: what is there, then every change."""
    return StreamingResponse(server_sent(client, namespace), media_type="text/event-stream")


@app.get(SERVICES + "/{name}")
async def get(client: Client, namespace: str, name: str) -> LLMService:
    """One service with its status."""
    return await client.get(name, namespace)


@app.patch(SERVICES + "/{name}")
async def patch(client: Client, namespace: str, name: str, change: Document) -> LLMService:
    """Merge a change into it; null deletes a field."""
    return await client.patch(name, change, namespace)


@app.put(SERVICES + "/{name}/replicas")
async def scale(client: Client, namespace: str, name: str, replicas: Annotated[int, Query(ge=0)]) -> None:
    """Set the number of replicas."""
    await client.scale(name, replicas, namespace)


@app.delete(SERVICES + "/{name}", status_code=204)
async def delete(client: Client, namespace: str, name: str) -> None:
    """Delete it; the model on its volume stays."""
    await client.delete(name, namespace)


async def server_sent(client: AsyncClient, namespace: str) -> AsyncIterator[str]:
    """The client's watch in the browser's words; a comment now and then keeps proxies from closing the connection."""
    changes = client.watch(namespace)
    coming = asyncio.ensure_future(anext(changes))
    try:
        while True:
            await asyncio.wait({coming}, timeout=HEARTBEAT_S)
            if not coming.done():
                yield ": still here\n\n"
                continue
            event, coming = coming.result(), asyncio.ensure_future(anext(changes))
            data = event.service.model_dump(mode="json", by_alias=True, exclude_none=True)
            yield f"event: {event.type}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
    except ClientError as error:
        yield f"event: ERROR\ndata: {json.dumps({'error': str(error)})}\n\n"
    finally:
        coming.cancel()
