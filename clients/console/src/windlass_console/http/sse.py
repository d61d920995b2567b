"""Streams to the browser: server-sent events with JSON, and the answers of a served model as they come.

Events are named; a comment comes now and then, and an error is the last event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from windlass_base.kube.errors import ClientError

from windlass_console.errors import ConsoleError, SignInError, document_of
from windlass_console.http.asking import Asking

HEARTBEAT_S = 15.0
COMMENT = b": still here\n\n"
TYPE = "text/event-stream"
Event = tuple[str, object]
"""A name and what is sent as JSON."""
Events = AsyncGenerator[Event, None]


def encoded(event: Event) -> bytes:
    """One event; JSON in ASCII has no line feed, so that no text of others can begin another one."""
    name, data = event
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class HeldStream(StreamingResponse):
    """A stream that gives back what it holds when it ends, however it ends."""

    def __init__(self, content: AsyncIterator[bytes], held: AsyncExitStack, media_type: str) -> None:
        super().__init__(content, media_type=media_type, headers={"X-Accel-Buffering": "no"})
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._held.aclose()


def event_stream(who: Asking, events: Events) -> HeldStream:
    """The events as an answer, until the session ends; TooManyStreamsError where the user holds enough streams."""
    held = AsyncExitStack()
    held.enter_context(who.identity.stream())
    held.push_async_callback(events.aclose)
    return HeldStream(_bytes(events, who.until), held, TYPE)


async def _bytes(events: Events, until: int | None) -> AsyncIterator[bytes]:
    """The events as bytes, with comments between them; a watch of the API server outlives the token that began it."""
    coming: asyncio.Task[Event] | None = None
    try:
        yield COMMENT
        while True:
            left_s = HEARTBEAT_S if until is None else until - time.time()
            if left_s <= 0:
                raise SignInError("your session has ended; sign in with a token of the cluster")
            coming = coming or asyncio.create_task(_next(events))
            done, _ = await asyncio.wait({coming}, timeout=min(HEARTBEAT_S, left_s))
            if not done:
                yield COMMENT
                continue
            event, coming = coming.result(), None
            yield encoded(event)
    except StopAsyncIteration:
        return
    except (ClientError, ConsoleError) as error:
        yield encoded(("ERROR", document_of(error)))
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _next(events: Events) -> Event:
    return await anext(events)
