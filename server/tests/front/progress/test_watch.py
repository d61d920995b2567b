"""The watch in the guard: an engine's client that says how many requests it has, and probes."""

import asyncio
from types import SimpleNamespace

import httpx
import pytest
from windlass.api.guard import Guard
from windlass.front.progress import rule
from windlass.front.progress.rule import Progress
from windlass.front.progress.watch import HEADER, Watch, client_of
from windlass_testbed.simulated_time import elapse

pytestmark = pytest.mark.simulated_time


class Client:
    """vLLM's engine client, as far as it is asked; `paused` None never answers."""

    def __init__(self, requests: int = 1, paused: bool | None = False) -> None:
        self.requests, self.paused = requests, paused

    def get_num_unfinished_requests(self) -> int:
        return self.requests

    async def is_paused(self) -> bool:
        if self.paused is None:
            await asyncio.Event().wait()
        return bool(self.paused)


def stalled() -> Progress:
    made = Progress(0.1)
    made.step_ended()
    made.passed(5, has_work=True)
    return made


@pytest.mark.parametrize(
    ("client", "is_judged", "is_told"),
    [
        (Client(), True, True),
        (Client(paused=None), True, True),
        (Client(paused=True), True, False),
        (Client(), False, False),
    ],
    ids=["hangs", "does not even say whether it is paused", "paused", "starts"],
)
async def test_whom_it_judges(client: Client, is_judged: bool, is_told: bool) -> None:
    """A paused engine and one that starts take no steps on purpose."""
    watch = Watch(stalled(), lambda: is_judged)
    await watch.judge(client, 1)
    assert bool(watch.told) == is_told


async def test_it_tells_while_it_lasts() -> None:
    """Requests and no step, then a step; open sockets are not counted as work."""
    progress, client, sockets = Progress(20), Client(2), [0]
    progress.step_ended()
    watch = Watch(progress, lambda: True)
    running = asyncio.create_task(watch.run(client, lambda: sockets[0], every_s=5))
    await elapse(19)
    assert not watch.told
    await elapse(2)
    assert watch.told
    progress.step_ended()
    await elapse(5)
    assert not watch.told
    sockets[0] = 2
    await elapse(3600)
    assert not watch.told
    running.cancel()


async def test_a_process_that_was_stopped_has_lost_no_time() -> None:
    """A loop that stood still for a minute counts two turns of it."""
    progress = Progress(50)
    progress.step_ended()
    watch = Watch(progress, lambda: True)
    running = asyncio.create_task(watch.run(Client(), lambda: 0, every_s=5))
    await elapse(12)
    asyncio.get_running_loop().advance(60)
    await elapse(6)
    assert not watch.told
    assert progress.still_s == 10 + 10 + 5
    running.cancel()


async def test_probes_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a header that the supervisor knows; other requests are let through."""
    monkeypatch.setattr(rule, "OF_THIS_PROCESS", stalled())

    async def engine(scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = SimpleNamespace(state=SimpleNamespace(engine_client=Client()))
    guard = Guard(engine, {rule.VARIABLE: "0.1"})

    async def shell(scope, receive, send) -> None:
        await guard({**scope, "app": app}, receive, send)

    async def nothing(*_: object) -> dict[str, str]:
        return {}

    await shell({"type": "lifespan"}, nothing, nothing)
    await guard.probes.watch.judge(Client(), 4)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(shell), base_url="http://api") as http:
        answer = await http.get("/health")
        assert (answer.status_code, HEADER in answer.headers) == (503, True)
        assert "the engine holds 4 requests and has ended no step" in answer.json()["error"]["message"]
        assert (await http.get("/v1/models")).status_code == 200
    guard.lifespan.watching.cancel()


@pytest.mark.parametrize("app", [None, SimpleNamespace(), SimpleNamespace(state=SimpleNamespace(engine_client=None))])
def test_an_application_without_an_engine_is_not_watched(app: object) -> None:
    """As a server that renders only."""
    assert client_of(app) is None
