"""HTTP to the API server: JSON in and out, lines of a stream, refusals as our errors. Nothing here knows LLMService."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
from lightkube.config import client_adapter
from lightkube.config.client_adapter import ConnectionParams
from lightkube.core.exceptions import ConfigError

from windlass_operator.client.access import Access
from windlass_operator.client.errors import AccessError, UnreachableError, refusal

JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
Document = dict[str, Any]
Params = Mapping[str, str | int | bool | None]
ERROR_BODY_MAX = 256 * 1024


class Api:
    """One API server as one credential sees it."""

    def __init__(
        self, access: Access, timeout_s: float = 30.0, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """Opens nothing yet; `transport` replaces the network in tests."""
        self.server = access.server
        self._timeout_s = timeout_s
        try:
            given = ConnectionParams(timeout=httpx2.Timeout(timeout_s), transport=cast(Any, transport))
            self._http = client_adapter.AsyncClient(access.config, given)
        except (OSError, ConfigError) as error:
            raise AccessError(f"{access.server}: the credential or the certificate cannot be used: {error}") from error

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
        with _told(self.server, what):
            answer = await self._http.request(method, path, params=_given(params), content=content, headers=headers)
        if answer.is_error:
            raise refusal(answer.status_code, _status(answer.content), what)
        return cast(Document, answer.json()) if answer.content else {}

    @asynccontextmanager
    async def lines(
        self, path: str, what: str, *, params: Params | None = None, silence_s: float | None = None
    ) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of a streamed answer; `silence_s` is how long it may say nothing (None: for ever)."""
        timeout = httpx2.Timeout(self._timeout_s, read=silence_s)
        with _told(self.server, what):
            async with self._http.stream("GET", path, params=_given(params), timeout=timeout) as answer:
                if answer.is_error:
                    raise refusal(answer.status_code, _status((await answer.aread())[:ERROR_BODY_MAX]), what)
                yield _lines(answer, self.server, what)

    async def aclose(self) -> None:
        """Let the connections go."""
        await self._http.aclose()


async def _lines(answer: httpx2.Response, server: str, what: str) -> AsyncIterator[str]:
    """Split at line feeds only: a log line may hold any other separator of Unicode's."""
    rest = ""
    with _told(server, what):
        async for text in answer.aiter_text():
            *whole, rest = (rest + text).split("\n")
            for line in whole:
                yield line.removesuffix("\r")
    if rest:
        yield rest


def _given(params: Params | None) -> dict[str, str]:
    """Parameters that say something, as Kubernetes spells them."""
    rows = (params or {}).items()
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in rows if value}


def _status(body: bytes) -> Document | None:
    """The Status in an error's body; None when the API server sent plain text."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.get("kind") == "Status" else None


class _told:  # noqa: N801 - reads as a verb where it stands
    """Failures of the connection as one sentence."""

    def __init__(self, server: str, what: str) -> None:
        self._where = f"{what}: no answer from {server}"

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, httpx2.TransportError | asyncio.TimeoutError | OSError):
            raise UnreachableError(f"{self._where}: {error or type(error).__name__}") from error
        if isinstance(error, ConfigError):
            raise AccessError(f"{self._where}: {error}") from error
