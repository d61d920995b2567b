"""The supervisor with real child processes: start, health, signals, exit codes, license."""

import asyncio
import json
import os
import signal
import sys
import urllib.request
from dataclasses import replace

import httpx
import pytest
from windlass.errors import EngineError, LicenseError, UsageError
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseFacts, LicenseKeeper
from windlass.license.model import Holder
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass.supervisor.supervise import Engine, Supervisor
from windlass_testbed.waiting import wait_until_async

NOWHERE = "http://127.0.0.1:9/health"
POD = Holder("n", "p", "u", "s")
SERVES = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""
LISTENS_TO_NOBODY = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
)


def python(program: str, health_url: str = NOWHERE) -> Engine:
    return Engine((sys.executable, "-c", program), health_url)


def board() -> FactsBoard:
    return FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ("--model", "/data/model")))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.supervisor.asking.HEALTH_EVERY_S", 0.05)
    monkeypatch.setattr("windlass.license.keeper.FAST_RETRY_MAX_S", 0.05)


async def test_serves_and_stops_on_a_signal(free_port: int) -> None:
    """The phases go license, engine, serving; SIGTERM reaches the engine, and its exit code is ours."""
    facts = board()
    served: list[str] = []
    engine = python(SERVES.replace("PORT", str(free_port)), f"http://127.0.0.1:{free_port}/health")
    work = asyncio.create_task(Supervisor(engine, facts, None, lambda: served.append(facts.phase)).run())
    await wait_until_async(lambda: facts.phase == "serving")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await work == 0
    assert [row["phase"] for row in facts.to_dict()["phases"]] == ["license", "engine"]
    assert served == ["serving"]


async def test_an_engine_gets_its_signal_after_the_drain(free_port: int) -> None:
    """Several API processes: the first signal waits for the answers that run, the second waits for nothing."""
    asked, answered = asyncio.Event(), asyncio.Event()
    engine = python(SERVES.replace("PORT", str(free_port)), health := f"http://127.0.0.1:{free_port}/health")

    async def drain() -> bool:
        asked.set()
        return await answered.wait()

    supervisor = Supervisor(replace(engine, drain=drain), facts := board(), None)
    work = asyncio.create_task(supervisor.run())
    await wait_until_async(lambda: facts.phase == "serving")
    os.kill(os.getpid(), signal.SIGTERM)
    await asked.wait()
    async with httpx.AsyncClient() as http:  # a signal before this request would have ended the engine
        assert (await http.get(health)).is_success
    assert not work.done()
    answered.set()
    assert await work == 0


@pytest.mark.parametrize(("are_answered", "code"), [(True, 0), (False, 128 + signal.SIGKILL)])
async def test_an_engine_that_stays_after_the_drain_is_killed(
    free_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], are_answered: bool, code: int
) -> None:
    """The pod's time would end first, and the license would not be given back. No answer lost is no failure."""
    monkeypatch.setattr("windlass.supervisor.supervise.ENGINE_ENDS_S", 0.2)
    stays = SERVES.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN").replace("PORT", str(free_port))
    engine = python(stays, f"http://127.0.0.1:{free_port}/health")

    async def drain() -> bool:
        return are_answered

    work = asyncio.create_task(Supervisor(replace(engine, drain=drain), facts := board(), None).run())
    await wait_until_async(lambda: facts.phase == "serving")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await work == code
    assert "the engine has not ended within 0 s: it is killed" in capsys.readouterr().err


async def two_signals(supervisor: Supervisor) -> None:
    """Send them one after the other: the kernel may make one of two at once."""
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until_async(lambda: supervisor._stopping)
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until_async(lambda: supervisor._was_cut)


async def test_answers_that_a_second_signal_cut_are_lost(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs any more then, and yet not all was answered."""
    monkeypatch.setattr("windlass.supervisor.supervise.ENGINE_ENDS_S", 0.2)
    stays = SERVES.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN").replace("PORT", str(free_port))
    engine, ended = python(stays, f"http://127.0.0.1:{free_port}/health"), asyncio.Event()
    supervisor = Supervisor(replace(engine, drain=ended.wait), facts := board(), None)
    work = asyncio.create_task(supervisor.run())
    await wait_until_async(lambda: facts.phase == "serving")
    await two_signals(supervisor)
    ended.set()
    assert await work == 128 + signal.SIGKILL


async def test_a_second_signal_cuts_the_drain_short(free_port: int) -> None:
    """As two times Ctrl-C."""
    engine = python(SERVES.replace("PORT", str(free_port)), f"http://127.0.0.1:{free_port}/health")
    facts = board()
    supervisor = Supervisor(replace(engine, drain=asyncio.Event().wait), facts, None)
    work = asyncio.create_task(supervisor.run())
    await wait_until_async(lambda: facts.phase == "serving")
    await two_signals(supervisor)
    assert await work == 0


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("import sys; sys.exit(7)", 7, "the engine ended with exit code 7: see the last lines of its log"),
        ("raise ValueError('weights are broken')", 1, "exit code 1: ValueError: weights are broken"),
        (
            "import os; os.kill(os.getpid(), 9)",
            137,
            "the engine was ended by SIGKILL; the container's memory is too small",
        ),
        ("import os; os.kill(os.getpid(), 11)", 139, "the engine was ended by SIGSEGV"),
        ("pass", 1, "the engine ended by itself without an error"),
    ],
)
async def test_engine_that_ends(program: str, code: int, said: str) -> None:
    """The exit code is the engine's, and the sentence says why."""
    facts = board()
    with pytest.raises(EngineError) as error:
        await Supervisor(python(program), facts, None).run()
    assert code == error.value.exit_code
    assert said in str(error.value)
    assert facts.phase == "failed"
    assert facts.to_dict()["failure"] == {"reason": "EngineFailed", "message": str(error.value)}


async def test_engine_that_refuses_a_flag() -> None:
    """A flag that only the engine knows to be wrong is the user's error, not the engine's."""
    program = "import sys; print('api_server.py: error: unrecognized arguments: --nope'); sys.exit(2)"
    with pytest.raises(UsageError, match="unrecognized arguments: --nope"):
        await Supervisor(python(program), board(), None).run()


async def test_no_engine_before_the_license(serve) -> None:
    """While the license is refused no engine runs; the process waits and can be stopped."""
    server = serve(lambda seen: (403, json.dumps({"reason": "NoLicense", "message": "no license is in force"})))
    facts = board()
    async with LeaseClient([server.url]) as client:
        supervisor = Supervisor(python(SERVES), facts, LicenseKeeper(client, ("GPU-a",), POD, facts.set_license))
        work = asyncio.create_task(supervisor.run())
        await wait_until_async(lambda: len(server.seen) > 2)
        shown = facts.to_dict()
        assert (
            shown["phase"],
            shown["license"]["state"],
            shown["license"]["gpus"],
        ) == ("license", "refused", ["GPU-a"])
        assert supervisor._child is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert await work == 0


async def test_lost_license_stops_the_engine(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the grace has passed the engine is ended, even one that does not listen, and the lease is given back."""
    monkeypatch.setattr("windlass.child.process.STOP_SECONDS_MAX", 0.2)
    granted = json.dumps({"lease": "L1", "ttlSeconds": 0.2, "graceSeconds": 0})
    server = serve(lambda seen: (200, granted) if len(server.seen) == 1 else (500, "down"))
    facts = board()
    async with LeaseClient([server.url]) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, facts.set_license)
        supervisor = Supervisor(python(LISTENS_TO_NOBODY), facts, keeper)
        with pytest.raises(LicenseError, match="the license was not renewed for"):
            await supervisor.run()
    assert (facts.phase, facts.to_dict()["license"]["state"]) == ("failed", "unreachable")
    assert (server.seen[-1].method, server.seen[-1].path) == ("DELETE", "/v1/leases/L1")


async def test_an_engine_that_is_starting_is_not_waited_for(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to stop before it serves, it is ended soon, and its GPUs are free for who waits for them."""
    monkeypatch.setattr("windlass.supervisor.supervise.START_STOP_S_MAX", 0.2)
    granted = json.dumps({"lease": "L1", "ttlSeconds": 60, "graceSeconds": 0})
    server = serve(lambda seen: (200, granted))
    async with LeaseClient([server.url]) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        supervisor = Supervisor(python(LISTENS_TO_NOBODY), board(), keeper)
        work = asyncio.create_task(supervisor.run())
        await wait_until_async(lambda: list(supervisor.output.lines) == ["up"])
        os.kill(os.getpid(), signal.SIGTERM)
        assert await work == 128 + signal.SIGKILL
    assert server.seen[-1].method == "DELETE"


def test_facts_port() -> None:
    """The facts are there before anything else is."""
    facts = board()
    facts.set_license(LicenseFacts(True, "refused", "no license", ("GPU-a",)))
    with FactsServer(facts, 0, "127.0.0.1") as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/windlass/facts") as response:
            shown = json.load(response)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as response:
            assert "windlass_serving 0" in response.read().decode().splitlines()
        with pytest.raises(urllib.request.HTTPError, match="404") as error:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/")
        error.value.close()
        with pytest.raises(UsageError, match=r"cannot be opened.*set WINDLASS_FACTS_PORT"):
            FactsServer(facts, server.port, "127.0.0.1")
    assert shown.pop("startup")["preread"]["state"] == "off"
    assert shown == {
        "version": 1,
        "service": "qwen",
        "phase": "license",
        "phases": [],
        "license": {
            "required": True,
            "state": "refused",
            "message": "no license",
            "gpus": ["GPU-a"],
            "expires": None,
            "reason": "",
        },
        "engine": {"name": "vllm", "version": "0.32.0", "argv": ["--model", "/data/model"]},
    }
