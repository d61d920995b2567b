"""What passes between kopf and the API server: kopf's session has this as its middleware.

It holds pages and lines within bounds and hands each object to its stream, which stores it. kopf's decoder sees which
keys a page or an event concerns, and nothing else that a user wrote. An event that concerns no key, such as the echo
of a write of ours, passes as a bookmark of its version, for which kopf calls no handler.

It makes every failure of a stream one that kopf goes on from: kopf lists anew after a `410 Gone` and connects anew
after a broken connection; any other failure of a stream would end the operator. `rest.py` logs in.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from windlass_operator.cluster import decode
from windlass_operator.cluster.rest import ANSWER_BYTES_MAX, METADATA, METADATA_LIST, TooLargeError, bounded, cut
from windlass_operator.cluster.rest import message as message_of
from windlass_operator.cluster.streams import Stream

logger = logging.getLogger(__name__)
Handler = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
OBJECTS_MAX = 250  # of a page
PAGE_BYTES_MAX = 4 * 1024**2  # 500 pods of 8 KiB; a page of one object may have ANSWER_BYTES_MAX
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.5, 30.0
OK, UNAUTHORIZED, TOO_MANY, SERVER_ERROR = 200, 401, 429, 500
LIST_ANEW = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"list anew"}}\n'


class BrokenError(aiohttp.ClientPayloadError):
    """A stream's request failed; kopf takes it for a connection that broke."""


class RefusedError(Exception):
    """The API server answered a stream's request, and refused."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        super().__init__(message_of(body) or f"HTTP {status}")


@dataclass
class Wire:
    """The middleware; `streams` are found by the path that kopf asks for."""

    streams: Mapping[str, Stream]
    headers: Callable[[], Awaitable[Mapping[str, str]]]  # the login's, for each request
    renew: Callable[[], Awaitable[None]]  # the login was refused
    shapes: Mapping[str, Callable[[bytes], bytes]]  # of the collections that kopf itself follows
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def __call__(self, request: aiohttp.ClientRequest, handler: Handler) -> aiohttp.ClientResponse:
        """One request of kopf's."""
        stream, asks = self.streams.get(request.url.path), Asking(self, request, handler)
        if stream is None:
            shape = self.shapes.get(request.url.path)
            return await (asks.shaped(shape) if shape else asks.send())
        try:
            return await (asks.watch(stream) if "watch" in request.url.query else asks.list(stream))
        except (RefusedError, TooLargeError, aiohttp.ClientError, OSError, TimeoutError, msgspec.MsgspecError) as error:
            words = f"{type(error).__name__}: {error}"
            await self.sleep(_backoff_s(stream.failed(words, getattr(error, "status", 0))))
            raise BrokenError(words) from error


@dataclass(frozen=True, slots=True)
class Asking:
    """One request of kopf's on its way."""

    wire: Wire
    request: aiohttp.ClientRequest
    handler: Handler

    async def send(self) -> aiohttp.ClientResponse:
        """Send it as the login's user; kopf logs in anew where it is refused twice."""
        self.request.headers.update(await self.wire.headers())
        answer = await self.handler(self.request)
        if answer.status == UNAUTHORIZED:
            answer.release()
            await self.wire.renew()
            self.request.headers.update(await self.wire.headers())
            answer = await self.handler(self.request)
        return answer

    async def list(self, stream: Stream) -> aiohttp.ClientResponse:
        """One page, of fewer objects where it would be too large; of one that is too large alone the metadata."""
        objects, metadata_only = OBJECTS_MAX, stream.row.metadata_only
        while True:
            self.request.url = self.request.url.update_query(limit=objects)
            if metadata_only:
                self.request.headers["Accept"] = METADATA_LIST
            answer = await self.send()
            try:
                body = await bounded(answer, ANSWER_BYTES_MAX if objects == 1 else PAGE_BYTES_MAX)
            except TooLargeError:
                if metadata_only and objects == 1:
                    raise
                metadata_only, objects = metadata_only or objects == 1, max(1, objects // 4)
                continue
            if answer.status == UNAUTHORIZED:
                answer.content = Whole(answer.content, body)  # type: ignore[assignment]
                return answer
            if not answer.ok:
                raise RefusedError(answer.status, body)
            answer.content = Whole(answer.content, self._page(stream, body))  # type: ignore[assignment]
            return answer

    def _page(self, stream: Stream, body: bytes) -> bytes:
        """Hand the page to the stream; the page as kopf gets it, with one item for all of its objects."""
        page = decode.page(body)
        first, last = "continue" not in self.request.url.query, not page.metadata.get("continue")
        raws = map(bytes, page.items)
        handed = stream.take_page(raws, int(page.metadata["resourceVersion"]), first=first, last=last)
        items = [] if handed is None else [msgspec.Raw(handed)]
        return msgspec.json.encode({"metadata": page.metadata, "items": items})

    async def watch(self, stream: Stream) -> aiohttp.ClientResponse:
        """A stream of lines; one whose version is refused is answered so that kopf lists anew."""
        if stream.row.metadata_only:
            self.request.headers["Accept"] = METADATA
        answer = await self.send()
        if answer.ok:
            answer.content = Lines(answer, stream.take, stream)  # type: ignore[assignment]
        elif answer.status != UNAUTHORIZED:
            refused = RefusedError(answer.status, await bounded(answer, ANSWER_BYTES_MAX))
            if answer.status >= SERVER_ERROR or answer.status == TOO_MANY:
                raise refused
            await self.wire.sleep(_backoff_s(stream.failed(str(refused), answer.status)))
            answer.content, answer.status = Whole(answer.content, LIST_ANEW), OK  # type: ignore[assignment]
        return answer

    async def shaped(self, shape: Callable[[bytes], bytes]) -> aiohttp.ClientResponse:
        """A collection that kopf follows for itself, of whose objects it gets what it reads."""
        answer = await self.send()
        if answer.ok and "watch" in self.request.url.query:
            answer.content = Lines(answer, lambda _, raw: shape(raw))  # type: ignore[assignment]
        elif answer.ok:
            page = decode.page(await bounded(answer, SHAPED_BYTES_MAX))
            rows = [msgspec.Raw(shape(bytes(row))) for row in page.items]
            body = msgspec.json.encode({"metadata": page.metadata, "items": rows})
            answer.content = Whole(answer.content, body)  # type: ignore[assignment]
        return answer


SHAPED_BYTES_MAX = 64 * 1024**2


class Whole:
    """An answer's content that was read already, perhaps changed."""

    def __init__(self, content: aiohttp.StreamReader, body: bytes) -> None:
        self._content, self._body = content, body

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - aiohttp's own attributes
        return getattr(self._content, name)

    async def read(self, _most: int = -1) -> bytes:
        """All of it."""
        return self._body

    async def iter_chunked(self, _most: int) -> AsyncIterator[bytes]:
        """All of it at once."""
        yield self._body


class Lines:
    """The content of a watch: whole lines, each handed to its stream, of each object what kopf is to read."""

    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        shape: Callable[[str, bytes], bytes | None],
        stream: Stream | None = None,
    ) -> None:
        self._answer, self._content, self._shape, self._stream = answer, answer.content, shape, stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - aiohttp's own attributes
        return getattr(self._content, name)

    async def iter_chunked(self, _most: int) -> AsyncIterator[bytes]:
        """Lines until the stream ends; a part of a line at its end is dropped."""
        rest = b""
        try:
            async for chunk in self._content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > ANSWER_BYTES_MAX:
                    raise BrokenError(f"a line of the watch is longer than {ANSWER_BYTES_MAX} bytes")
                for line in filter(None, whole):
                    yield self._checked(line) + b"\n"
        finally:
            cut(self._answer)

    def _checked(self, line: bytes) -> bytes:
        try:
            event = decode.event(line)
        except msgspec.MsgspecError as error:
            raise BrokenError(f"a line of the watch is no JSON: {error}") from error
        if event.type == "ERROR":
            self._list_anew(bytes(event.object))
            return LIST_ANEW
        if self._stream:
            self._stream.heard()
        if event.type == "BOOKMARK":
            return line
        raw = bytes(event.object)
        shaped = self._shape(event.type, raw)
        if shaped is None:
            return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": _version_alone(raw)}})
        return msgspec.json.encode({"type": event.type, "object": msgspec.Raw(shaped)})

    def _list_anew(self, status: bytes) -> None:
        """Whatever error ends a stream, kopf lists anew after it; the reason is told."""
        label = self._stream.row.label if self._stream else self._answer.url.path
        logger.info("the watch of %s begins anew: %s", label, message_of(status) or "HTTP 410")


def _version_alone(raw: bytes) -> dict[str, str]:
    return {"resourceVersion": decode.identity(raw).resourceVersion}


def _backoff_s(failures: int) -> float:
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 10)) * random.uniform(0.8, 1.2)  # noqa: S311
