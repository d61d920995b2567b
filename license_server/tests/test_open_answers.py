"""A flood of what is open to everybody costs what one request does, and takes no thread from the probes."""

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.routing import APIRoute
from windlass_base.front.peers import FrontLimits
from windlass_license.http import remembered
from windlass_license.http.app import create_app
from windlass_license.http.front import COSTLY, UPLOAD, allowances
from windlass_license.service import LicenseService
from windlass_license.settings import Settings

ADMIN = {"/ls", "/ls/file", "/ls/audit"}
"""Behind the admin token; reading the store or a long form takes a thread there."""


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The calls of a function, which does what it did."""
    calls: list[Any] = []
    whole = getattr(owner, name)

    def call(*words: Any) -> Any:
        calls.append(words)
        return whole(*words)

    monkeypatch.setattr(owner, name, call)
    return calls


def flood(server: Any, path: str, **headers: str) -> set[str]:
    """The answers to fifty requests, eight at a time."""
    with ThreadPoolExecutor(8) as clients:
        return set(clients.map(lambda _: server.client.get(path, headers=headers).text, range(50)))


def test_a_license_is_rendered_once(
    a_server: Callable[..., Any], a_license: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the admin and for anybody; another license is shown at once."""
    server = a_server(admin_token="t")
    rendered = counted(monkeypatch, remembered, "_views")
    token = {"Authorization": "Bearer t"}
    for number, gpus in enumerate((3, 5)):
        server.client.headers.update(token)
        server.upload(a_license(gpus, serial=number))
        server.client.headers.pop("Authorization")
        (anybody,), (admin,) = flood(server, "/ls/view"), flood(server, "/ls/view", **token)
        assert (f"count: {gpus}\n" in anybody, admin.count("uuid:")) == (True, gpus)
        assert len(rendered) == number + 1


def test_figures_are_read_once_a_second(server: Any, clocks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask."""
    reads = counted(monkeypatch, LicenseService, "standing")
    assert len(flood(server, "/metrics")) == 1
    assert len(reads) == 1
    clocks.advance(1)
    flood(server, "/metrics")
    assert len(reads) == 2


def test_the_store_is_read_once_a_second(server: Any, clocks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probes wait for one look."""
    looks = counted(monkeypatch, LicenseService, "check")
    assert flood(server, "/healthz") == {"ok\n"}
    assert len(looks) == 1
    clocks.advance(1)
    flood(server, "/healthz")
    assert len(looks) == 2


def test_open_paths_take_no_thread_of_the_pool(server: Any) -> None:
    """A function that is no coroutine would run in a thread, and forty of them would keep a probe waiting."""
    app = create_app(Settings(server.settings.data_dir.parent / "other", server.settings.public_keys))
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path not in ADMIN]
    assert {route.path for route in routes} >= {"/", "/healthz", "/readyz", "/metrics", "/ls/view", "/openapi.json"}
    assert [route.path for route in routes if not inspect.iscoroutinefunction(route.endpoint)] == []


def test_long_open_answers_cost_more_of_the_rate() -> None:
    """Every other request costs one."""
    allowance_of = allowances(FrontLimits())
    paths = {*COSTLY, UPLOAD, b"/", b"/healthz", b"/readyz", b"/v1/leases", b"/v1/leases/a"}
    assert {path for path in paths if allowance_of(path).cost > 1} == COSTLY
