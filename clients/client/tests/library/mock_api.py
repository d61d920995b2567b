"""An API server of the tests: answers by path out of a table, and keeps what was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpx2
from windlass_client import AsyncClient, token_access

Answer = httpx2.Response
Handler = Callable[[httpx2.Request], Answer]


def a_service(name: str, version: int = 1, uid: str = "u", **spec: Any) -> dict[str, Any]:
    model = {"id": "m", "source": {"pvc": {"claimName": "c"}}}
    meta = {"name": name, "namespace": "team", "uid": f"{uid}-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"model": model, **spec}}


def a_list(version: int, *rows: dict[str, Any], more: str = "") -> Answer:
    meta = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return httpx2.Response(200, json={"metadata": meta, "items": list(rows)})


def rows(*events: tuple[str, dict[str, Any]]) -> Answer:
    lines = [json.dumps({"type": kind, "object": raw}) for kind, raw in events]
    return httpx2.Response(200, content=Chunks(f"{line}\n".encode() for line in lines))


class Chunks(httpx2.AsyncByteStream):
    """A body that comes in pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = list(pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class MockApi:
    """Answers one request after the other with what the test laid out; the last answer is given again and again."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    async def handle(self, request: httpx2.Request) -> Answer:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else httpx2.ConnectError("nobody is there")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, handler: Any = None) -> AsyncClient:
        transport = httpx2.MockTransport(handler or self.handle)
        return AsyncClient(token_access("https://api", "t", namespace="team"), transport=transport)
