"""The console in this process before an API server that answers from a table."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from windlass_console.http.app import create_app
from windlass_console.settings import Settings

Answer = tuple[int, Any]
Handler = Callable[[httpx2.Request], Answer]
HEADERS = {"X-Windlass-Console": "1", "Origin": "http://console.test"}
TOKEN = "ann"


class Kube:
    """An API server: what it was asked, and what it answers by method and path."""

    def __init__(self) -> None:
        self.asked: list[httpx2.Request] = []
        self.answers: dict[tuple[str, str], Answer] = {}
        self.allowed: Callable[[dict[str, Any]], bool] = lambda _: True
        self.on("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", 201, self._user())
        self.on("GET", "/api/v1/namespaces", 200, {"items": [{"metadata": {"name": "team-a"}}]})

    def on(self, method: str, path: str, status: int, body: Any) -> None:
        self.answers[method, path] = (status, body)

    @property
    def tokens(self) -> set[str]:
        """The credentials that came."""
        return {request.headers.get("authorization", "") for request in self.asked}

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url="https://kube.test", transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if request.url.path.endswith("selfsubjectaccessreviews"):
            asked = json.loads(request.content)["spec"]["resourceAttributes"]
            try:
                return httpx2.Response(201, json={"status": {"allowed": self.allowed(asked)}})
            except PermissionError:  # the token has ended
                return httpx2.Response(401, json=_status("Unauthorized"))
        status, body = self.answers.get((request.method, request.url.path), (404, _status("NotFound")))
        if isinstance(body, bytes):
            return httpx2.Response(status, content=body)
        return httpx2.Response(status, json=body)

    @staticmethod
    def _user() -> dict[str, Any]:
        return {"status": {"userInfo": {"username": "ann", "groups": ["system:authenticated"]}}}


def _status(reason: str) -> dict[str, Any]:
    return {"kind": "Status", "reason": reason, "message": "not there"}


class TableAccess:
    """A user's way to it."""

    server = "https://kube.test"

    def __init__(self, kube: Kube, token: str, namespace: str) -> None:
        self._kube, self._token, self.namespace = kube, token, namespace

    def http(self, *_: object) -> httpx2.AsyncClient:
        client = self._kube.client()
        client.headers["Authorization"] = f"Bearer {self._token}"
        return client


@pytest.fixture
def kube() -> Kube:
    return Kube()


@pytest.fixture
async def start(kube: Kube) -> AsyncIterator[Callable[..., httpx2.AsyncClient]]:
    """A console with these settings, and a browser before it."""
    browsers: list[httpx2.AsyncClient] = []
    apps = []

    def started(**settings: Any) -> httpx2.AsyncClient:
        given = Settings(**{"secure_cookie": False, "session_key": b"k" * 32, **settings})
        app = create_app(given, lambda token, namespace: TableAccess(kube, token, namespace))  # type: ignore[arg-type, return-value]
        apps.append(app)
        transport = httpx2.ASGITransport(app=app)
        browser = httpx2.AsyncClient(transport=transport, base_url="http://console.test", headers=HEADERS)
        browsers.append(browser)
        return browser

    yield started
    for browser in browsers:
        await browser.aclose()
    for app in apps:
        await app.inner.state.console.identities.aclose()


@pytest.fixture
async def ann(start: Callable[..., httpx2.AsyncClient]) -> httpx2.AsyncClient:
    """A browser that is signed in."""
    browser = start()
    assert (await browser.post("/api/session", json={"token": TOKEN})).status_code == 200
    return browser
