"""The start time-out: silence ends an engine that does not answer, words keep it; and processes that outlive theirs."""

import asyncio
import os
import socket
import sys
import time
from pathlib import Path

import pytest
from windlass.errors import EngineError, StartTimeoutError
from windlass.supervisor import silence, termination
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.child import Child, bury
from windlass.supervisor.output import OutputTail
from windlass.supervisor.silence import Silence
from windlass.supervisor.supervise import Engine, Supervisor

NOWHERE = "http://127.0.0.1:9/health"
HANGS = "import time; print('Loading', flush=True); time.sleep(60)"
REPEATS = """
import time
for second in range(600):
    print(f"INFO 11-21 03:24:{second:02d} [queue.py:1] nobody fills the queue", flush=True); time.sleep(0.1)
"""
LOADS = (
    "import sys, time\nfor shard in range(20):\n    print(f'shard {shard}', flush=True); time.sleep(0.1)\nsys.exit(7)"
)
SERVES = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", {port}), Handler).handle_request()
import time; time.sleep(2.5)
raise SystemExit(9)
"""


async def end_of(program: str, start_timeout_s: float | None, health_url: str = NOWHERE) -> EngineError:
    engine = Engine((sys.executable, "-c", program), health_url, start_timeout_s=start_timeout_s)
    board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
    with pytest.raises(EngineError) as error:
        await Supervisor(engine, board, None).run()
    assert board.phase == "failed"
    return error.value


@pytest.mark.parametrize("program", [HANGS, REPEATS], ids=["silent", "says the same again"])
async def test_an_engine_that_hangs_is_ended(program: str) -> None:
    """With an exit code and a reason of its own, and with its last line."""
    began = time.monotonic()
    error = await end_of(program, 1.5)
    assert isinstance(error, StartTimeoutError)
    assert (error.exit_code, error.reason) == (5, "StartTimeout")
    assert "the engine has not answered, and for 2 s said nothing new; its last line was " in str(error)
    assert '"reason": "StartTimeout"' in termination.last_words(error)
    assert time.monotonic() - began < 30


async def test_an_engine_that_says_something_may_take_its_time() -> None:
    """It loads for longer than the limit, and ends by itself."""
    error = await end_of(LOADS, 1.5)
    assert (error.exit_code, type(error)) == (7, EngineError)


async def test_never() -> None:
    """Without a limit silence is none."""
    error = await end_of("import time; time.sleep(1.5); raise SystemExit(8)", None)
    assert error.exit_code == 8


async def test_once_it_answers_it_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for the start alone."""
    monkeypatch.setattr("windlass.supervisor.asking.HEALTH_EVERY_S", 0.05)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    engine = Engine((sys.executable, "-c", SERVES.format(port=port)), f"http://127.0.0.1:{port}/", start_timeout_s=2)
    board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
    with pytest.raises(EngineError) as error:
        await Supervisor(engine, board, None).run()
    assert error.value.exit_code == 9
    assert "serving" in [row["phase"] for row in board.to_dict()["phases"]]


def test_what_is_new() -> None:
    """The same words at another time from another process are not."""
    now = iter(range(100))
    heard = Silence(lambda: float(next(now)))
    heard.hear("(Worker pid=7) INFO 11-21 03:24:58 [x.py:1] waiting")
    before = heard.seconds
    heard.hear("(Worker pid=8) WARNING 11-21 03:29:58 [x.py:1] waiting")
    assert heard.seconds == before + 1
    heard.hear("shard 2 of 9")
    assert heard.seconds == 1


def test_sentence_of_an_engine_that_never_spoke() -> None:
    """There is no last line to show."""
    assert "and for 5 s said nothing; when it only needs longer raise WINDLASS_START_TIMEOUT" in silence.sentence(5, "")


async def test_workers_do_not_outlive_their_engine() -> None:
    """They hold the engine's memory and its pipe: its end is noticed all the same, and theirs follows."""
    program = (
        "import os, subprocess, sys\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(worker.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    output = OutputTail(sys.stdout.buffer)
    child = await Child.start((sys.executable, "-c", program), output, {})
    async with asyncio.timeout(20):
        assert await child.ended == -9
    worker = int(output.lines[0])
    async with asyncio.timeout(10):
        while _lives(worker):  # noqa: ASYNC110  another process's state has no event
            await asyncio.sleep(0.02)


def _lives(pid: int) -> bool:
    """Whether it runs; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_only_orphans_are_buried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child that somebody waits for keeps its exit code."""
    buried: list[int] = []
    children = tmp_path / "children"
    children.write_text("11 12 13 ")
    monkeypatch.setattr("windlass.supervisor.child.CHILDREN", children)
    monkeypatch.setattr(Child, "waited_for", {12})
    monkeypatch.setattr(os, "waitpid", lambda pid, _: buried.append(pid))
    bury()
    assert buried == [11, 13]
