"""What goes on: lists and services as they change, logs as they are written, answers as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from windlass_base.kube.errors import ClientError, NotFoundError
from windlass_client import logs as client_logs
from windlass_client.client import ALL_NAMESPACES, AsyncClient
from windlass_client.line_queue import LineQueue
from windlass_client.values import LogLine

from windlass_console.cluster import proxy
from windlass_console.errors import UnusableError, document_of
from windlass_console.http.asking import NAME_PATTERN, Everywhere, Name, Namespace, ServiceKey, Who
from windlass_console.http.services import ONE, detail
from windlass_console.http.sse import TYPE, Events, HeldStream, encoded, event_stream
from windlass_console.identity.pool import Identity

router = APIRouter(prefix="/api/services", tags=["streams"])
TAIL, TAIL_MAX = 500, 5000
PIECE_MAX = 16 << 10  # characters of a line that come at once
PODS_MAX = 64  # whose lines are followed at the same time
LISTS_MAX = 50  # namespaces that are followed one by one
SSE: dict[int | str, dict[str, Any]] = {200: {"content": {TYPE: {}}, "description": "server-sent events"}}

# The body is the service's own affair, so that it is no parameter here.
ANY_OBJECT = {"type": "object", "additionalProperties": True}
CHAT_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": ANY_OBJECT}}}}


class LogRequest(BaseModel):
    """Which lines; `pod` empty for those of all pods at work."""

    pod: str = Field("", pattern=rf"^$|{NAME_PATTERN}")
    tail: int = Field(TAIL, ge=0, le=TAIL_MAX)
    follow: bool = False
    previous: bool = False


@router.get("/watch", responses=SSE)
async def watch_services(who: Who, namespace: Everywhere) -> HeldStream:
    """`ROWS`: everything, then the changes."""
    return event_stream(who, _rows(who.identity, await _lists(who.identity, namespace)))


@router.get(ONE + "/watch", responses=SSE)
async def watch_service(who: Who, namespace: Namespace, name: Name) -> HeldStream:
    """`CHANGED`: the service now and after every change; `DELETED`."""
    await who.identity.client.raw(name, namespace)
    return event_stream(who, _changes(who.identity.client, namespace, name))


@router.get(ONE + "/logs", responses=SSE)
async def logs(who: Who, namespace: Namespace, name: Name, wanted: Annotated[LogRequest, Query()]) -> HeldStream:
    """`LINES`: lines of all serving pods, of the model's Jobs while there are none, or of one pod; `END`."""
    ask = client_logs.LogQuery(
        namespace,
        name,
        wanted.pod,
        wanted.follow,
        wanted.previous,
        wanted.tail,
        piece_max=PIECE_MAX,
        pods_max=PODS_MAX,
    )
    lines = client_logs.read(who.identity.client.api, ask, who.identity.client.pods_at_work)
    return event_stream(who, _lines(lines))


@router.post(ONE + "/chat", openapi_extra=CHAT_BODY)
async def chat(who: Who, namespace: Namespace, name: Name, request: Request, key: ServiceKey = "") -> HeldStream:
    """The service's own answer to an OpenAI chat completion request."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise UnusableError("a chat request is JSON; send Content-Type: application/json")
    body = await request.body()
    async with AsyncExitStack() as stack:
        stack.enter_context(who.identity.stream())
        answer = await stack.enter_async_context(proxy.chat(who.identity.client.api, namespace, name, body, key))
        kind = TYPE if answer.content_type.startswith(TYPE) else "application/json"
        return HeldStream(_passed(answer.body), stack.pop_all(), kind)


async def _lists(identity: Identity, namespace: str) -> list[str]:
    """What is watched: one list, or one for each namespace where the user may not list all at once."""
    if namespace != ALL_NAMESPACES:
        return [namespace]
    seen = await identity.rights.visible()
    return [ALL_NAMESPACES] if seen.everywhere or not seen.names else list(seen.names[:LISTS_MAX])


async def _rows(identity: Identity, lists: list[str]) -> Events:
    with identity.feeds.follow(lists) as outbox:
        while True:
            yield "ROWS", await outbox.batch()


async def _changes(client: AsyncClient, namespace: str, name: str) -> Events:
    async with aclosing(client.watch(namespace, name=name)) as changes:
        async for event in changes:
            if event.type == "DELETED":
                yield "DELETED", {}
                continue
            with suppress(NotFoundError):  # deleted in between: the next event says so
                yield "CHANGED", await detail(client, namespace, name)


async def _lines(lines: AsyncGenerator[LogLine]) -> Events:
    """Lines that are there at the same time go out together; those that a page does not take hold 4 MiB at most."""
    queue = LineQueue()
    reader = asyncio.create_task(_into(lines, queue))
    try:
        while batch := await queue.take():
            yield "LINES", [_line(one) for one in batch]
        await reader  # raises what ended the log
        yield "END", {"reason": "the log has no more lines"}
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _into(lines: AsyncGenerator[LogLine], queue: LineQueue) -> None:
    try:
        async with aclosing(lines) as source:
            async for line in source:
                await queue.put(line)
    finally:
        queue.end()


def _line(line: LogLine) -> dict[str, object]:
    return {
        "pod": line.pod,
        "container": line.container,
        "text": line.text,
        "time": line.time,
        "goesOn": line.goes_on,
    }


async def _passed(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The answer as it comes; a connection that breaks off becomes the last event."""
    try:
        async for data in body:
            yield data
    except ClientError as error:
        yield encoded(("ERROR", document_of(error)))
