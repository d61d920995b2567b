"""The guard while a server starts: probes wait for its first chat, the supervisor alone needs neither key nor place."""

import httpx
import pytest
from windlass.front.settings import ApiSettings
from windlass.front.starting import HEADER, OVER_PATH, Start

from .conftest import Api

SECRET = "made for this start"
OURS = {HEADER: SECRET}
CHAT = "/v1/chat/completions"
SETTINGS = ApiSettings(served_names=("demo",), allowed_hosts=("llm.example.com",), concurrency=1, queue=0)


@pytest.fixture
def starting(api) -> Api:
    """A server with keys and allowed hosts that has not answered its first chat."""
    return api(settings=SETTINGS, keys="sk-a", start_key=SECRET)


@pytest.mark.parametrize("path", ["/health", "/ping", "http://api//health/"])
async def test_probes_hear_503_until_the_start_is_over(starting: Api, path: str) -> None:
    """Then the engine answers them; they are no refused requests."""
    answer = await starting.client.get(path)
    assert (answer.status_code, answer.headers["retry-after"], starting.engine.paths) == (503, "1", [])
    assert "first chat" in answer.json()["error"]["message"]
    assert (await starting.client.get("/health", headers=OURS)).status_code == 200
    assert (await starting.client.post(OVER_PATH, headers=OURS)).status_code == 200
    assert (await starting.client.get(path)).status_code == 200
    assert 'refused_total{status="503"}' not in (await starting.client.get("/windlass/metrics")).text


async def test_the_supervisor_needs_no_key_no_host_and_no_place(starting: Api) -> None:
    """Its chat takes the way of a user's otherwise: the model is filled in."""
    assert (await starting.chat()).status_code == 421
    starting.guard.state.gate.enter("somebody")
    answer = await starting.chat(headers=OURS)
    assert (answer.status_code, starting.engine.document["model"]) == (200, "demo")
    assert starting.guard.state.gate.granted == 1


async def test_the_key_of_the_start_is_dead_after_it(starting: Api) -> None:
    """Nothing is opened by it any more, and the start cannot end twice."""
    await starting.client.post(OVER_PATH, headers=OURS)
    host = {"Host": "llm.example.com"}
    assert (await starting.chat(headers=OURS | host)).status_code == 401
    assert (await starting.client.post(OVER_PATH, headers=OURS | host)).status_code == 401


@pytest.mark.parametrize("headers", [{}, {HEADER: ""}, {HEADER: "wrong"}, {HEADER: SECRET[:-1]}], ids=repr)
async def test_nobody_else_ends_the_start(starting: Api, headers: dict[str, str]) -> None:
    """Without the key there is no such path, and probes go on waiting."""
    known = headers | {"Host": "llm.example.com", "Authorization": "Bearer sk-a"}
    assert (await starting.client.post(OVER_PATH, headers=known)).status_code == 404
    assert (await starting.client.get("/health", headers=headers)).status_code == 503


async def test_a_server_without_a_supervisor_is_open_at_once(api) -> None:
    """Nobody gave it a key, and the header opens nothing."""
    server = api(keys="sk-a")
    assert (await server.client.get("/health")).status_code == 200
    assert (await server.client.post(OVER_PATH, headers={HEADER: ""})).status_code == 401
    assert not Start("").has_key([(HEADER.encode(), b"")])


async def test_a_user_is_served_while_the_server_starts(starting: Api) -> None:
    """Who finds it early is not turned away: only probes are."""
    known = httpx.Headers({"Host": "llm.example.com", "Authorization": "Bearer sk-a"})
    assert (await starting.client.post(CHAT, json={"messages": []}, headers=known)).status_code == 200
