"""HTTP to the Kubernetes API server: JSON, streams of lines, and an error for each refusal. It knows no LLMService."""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import Any, NamedTuple, cast

import httpx2
from lightkube.core.exceptions import ConfigError

from windlass_base.kube.access import Access
from windlass_base.kube.errors import (
    UNKNOWN,
    AccessError,
    UnreachableError,
    UnreadableError,
    refusal,
)
from windlass_base.untrusted_json import UnusableJsonError, json_of

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
Document = dict[str, Any]
Params = Mapping[str, str | int | bool | None]
ERROR_BODY_MAX = 256 << 10  # bytes
ANSWER_MAX = 64 << 20  # bytes of one answer; a page of 500 LLMServices has about 5 MiB
LINE_MAX = 16 << 20  # characters of a watch's line; etcd stores at most 1.5 MiB an object
TIMES_MAX = 5  # a whole answer may take as many times as long as one wait for a part of it


class StreamLine(NamedTuple):
    """A line of a stream; a longer one than asked for comes in pieces, of which all but the last have `goes_on`."""

    text: str
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class AsText:
    """How the bytes of a stream become lines; longer lines than `line_max` come in pieces."""

    errors: str = "replace"  # of bytes that are no UTF-8
    line_max: int = LINE_MAX
    keep_returns: bool = False

    def end(self, line: str) -> str:
        """The line, with or without the carriage return before its end."""
        return line if self.keep_returns else line.removesuffix("\r")


@dataclass(frozen=True, slots=True)
class Proxied:
    """The answer of a program behind the API server's proxy, whatever its status."""

    status: int
    content_type: str
    body: AsyncIterator[bytes]

    @property
    def is_success(self) -> bool:
        """Whether the program did what was asked."""
        return 200 <= self.status < 300

    async def read(self, most: int) -> bytes | None:
        """The whole body; None when it has more bytes than `most`."""
        text = bytearray()
        async for data in self.body:
            text += data
            if len(text) > most:
                return None
        return bytes(text)


class Api:
    """One API server as one credential sees it."""

    def __init__(
        self,
        access: Access,
        timeout_s: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
        unknown: str = UNKNOWN,
    ) -> None:
        """Opens nothing yet; `transport` replaces the network in tests, `unknown` is what a missing kind asks for."""
        self._unknown = unknown
        self.server = access.server
        self._timeout_s = timeout_s
        self._http = access.http(timeout_s, transport)
        self._http.headers["Accept-Encoding"] = "identity"  # a few compressed bytes may stand for gigabytes
        # A pod behind the proxy sets cookies in the API server's name; none is kept, and none is sent on.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        params: Params | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> Document:
        """One request; `what` is how errors name it."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if content is not None else {}
        given = {"params": _given(params), "content": content, "headers": headers}
        with _transport_errors(self.server, what):
            async with (
                asyncio.timeout(TIMES_MAX * self._timeout_s),
                self._http.stream(method, path, **cast(Any, given)) as answer,
            ):
                text = await _bounded(answer, ANSWER_MAX if answer.is_success else ERROR_BODY_MAX)
        if text is None:
            raise UnreadableError(f"{what}: {self.server} sends more than is read, or sends it compressed")
        if not answer.is_success:
            raise refusal(answer.status_code, _status(text), what, self._unknown)
        return _document(text, f"{what}: {self.server}")

    @asynccontextmanager
    async def lines(
        self,
        path: str,
        what: str,
        *,
        params: Params | None = None,
        silence_s: float | None = None,
        as_text: AsText = AsText(),
    ) -> AsyncIterator[AsyncIterator[StreamLine]]:
        """The lines of a streamed answer; `silence_s` is how long it may say nothing (None: for ever)."""
        timeout = httpx2.Timeout(self._timeout_s, read=silence_s)
        with _transport_errors(self.server, what):
            async with self._http.stream("GET", path, params=_given(params), timeout=timeout) as answer:
                if not answer.is_success:
                    async with asyncio.timeout(TIMES_MAX * self._timeout_s):
                        text = await _bounded(answer, ERROR_BODY_MAX)
                    raise refusal(answer.status_code, _status(text or b""), what, self._unknown)
                if _encoded(answer):
                    raise UnreadableError(f"{what}: {self.server} sends its lines compressed")
                yield _lines(answer, as_text)

    @asynccontextmanager
    async def proxied(
        self,
        method: str,
        path: str,
        what: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = None,
    ) -> AsyncIterator[Proxied]:
        """The answer of a pod or Service through the API server's proxy, whatever its status and whoever made it.

        The API server's own refusals come the same way. The program behind the proxy can send any Status, and its
        headers join the API server's, so no answer shows which of the two made it: ask for the right in a review.
        The API server takes the header Authorization for itself: the program behind it never sees that one.
        """
        timeout = httpx2.Timeout(self._timeout_s, read=silence_s or self._timeout_s)
        given = {"content": content, "headers": dict(headers or {}), "timeout": timeout}
        with _transport_errors(self.server, what):
            async with self._http.stream(method, path, **cast(Any, given)) as answer:
                if _encoded(answer):
                    raise UnreadableError(f"{what}: the program behind {self.server} compresses its answer")
                kind = str(answer.headers.get("content-type", ""))
                if answer.is_success:
                    yield Proxied(answer.status_code, kind, answer.aiter_bytes())
                    return
                text = await _bounded(answer, ERROR_BODY_MAX) or b""
                yield Proxied(answer.status_code, kind, _once(text))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


async def _once(text: bytes) -> AsyncIterator[bytes]:
    yield text


async def _lines(answer: httpx2.Response, as_text: AsText) -> AsyncIterator[StreamLine]:
    """Split at line feeds only: a log line may hold any other separator of Unicode's."""
    decoder = codecs.getincrementaldecoder("utf-8")(as_text.errors)
    rest: list[str] = []  # of a line whose end has not come
    length = 0
    async for data in answer.aiter_bytes():
        *whole, last = decoder.decode(data).split("\n")
        for line in whole:
            rest.append(line)
            yield StreamLine(as_text.end("".join(rest)))
            rest, length = [], 0
        rest.append(last)
        length += len(last)
        if length > as_text.line_max:
            yield StreamLine("".join(rest), goes_on=True)
            rest, length = [], 0
    if any(rest):
        yield StreamLine("".join(rest))


async def _bounded(answer: httpx2.Response, most: int) -> bytes | None:
    """The body; None when it is longer, or compressed."""
    if _encoded(answer):
        return None
    text = bytearray()
    async for data in answer.aiter_bytes():
        text += data
        if len(text) > most:
            return None
    return bytes(text)


def _encoded(answer: httpx2.Response) -> bool:
    return str(answer.headers.get("content-encoding", "identity")).strip().lower() not in ("identity", "")


def _document(text: bytes, who: str) -> Document:
    """A JSON object; UnreadableError when the server sends anything else."""
    if not text:
        return {}
    try:
        document = json_of(text)
    except UnusableJsonError as error:
        raise UnreadableError(f"{who} does not answer as an API server: {error}") from error
    if not isinstance(document, dict):
        raise UnreadableError(f"{who} does not answer as an API server: no object")
    return document


def _given(params: Params | None) -> dict[str, str]:
    """The parameters with a value, as Kubernetes spells them."""
    rows = (params or {}).items()
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in rows if value}


def _status(body: bytes) -> Document | None:
    """The Status in an error's body; None when the API server sent plain text."""
    try:
        document = json_of(body)
    except UnusableJsonError:
        return None
    return document if isinstance(document, dict) and document.get("kind") == "Status" else None


class _transport_errors:  # noqa: N801 - a context manager, as contextlib names them
    """Turns failures of the connection into one error with a sentence."""

    def __init__(self, server: str, what: str) -> None:
        self._where = f"{what}: no answer from {server}"

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, httpx2.TransportError | asyncio.TimeoutError | OSError):
            raise UnreachableError(f"{self._where}: {str(error) or type(error).__name__}") from error
        if isinstance(error, ConfigError):
            raise AccessError(f"{self._where}: {error}") from error
