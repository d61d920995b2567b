"""The start time-out: silence ends an engine that does not answer, words keep it; and processes that outlive theirs."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from windlass.child.output import OutputTail
from windlass.child.process import Child, bury
from windlass.errors import EngineError, StartTimeoutError
from windlass.supervisor import silence, termination
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.silence import Silence
from windlass.supervisor.supervise import Engine, Supervisor
from windlass_testbed.simulated_time import ClockAhead
from windlass_testbed.waiting import HANG_S, wait_until_async

from .conftest import WAIT

NOWHERE = "http://127.0.0.1:9/health"
LIMIT_S = 1000.0
"""Start time-out that never passes by itself: tests move the clock."""
HANGS = "import signal; print('Loading', flush=True); signal.pause()"
REPEATS = """
import itertools, time
for second in itertools.count():
    print(f"INFO 11-21 03:24:{second % 60:02d} [queue.py:1] nobody fills the queue", flush=True); time.sleep(0.1)
"""
LOADS = f"""{WAIT}
import sys
for shard in range(5):
    print("shard", shard, flush=True)
    wait(sys.argv[1] + str(shard))  # until the test has moved the clock
sys.exit(7)
"""
SERVES = (
    WAIT
    + """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", {port}), Handler).handle_request()
wait(sys.argv[1])
raise SystemExit(9)
"""
)


class Start:
    """One start of an engine, with a clock that the test moves."""

    def __init__(self, folder: Path, program: str, limit_s: float | None, health_url: str = NOWHERE) -> None:
        self.clock, self._go = ClockAhead(), folder / "go"
        command = (sys.executable, "-c", program, str(self._go))
        self.board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
        self.supervisor = Supervisor(Engine(command, health_url, start_timeout_s=limit_s), self.board, None)
        self.work = asyncio.create_task(self.supervisor.run())

    async def prints(self, line: str, times: int = 1) -> None:
        """Wait for lines of the engine that end so."""
        await wait_until_async(
            lambda: self.work.done() or sum(one.endswith(line) for one in self.supervisor.output.lines) >= times, line
        )
        assert not self.work.done()

    def goes_on(self, which: str = "") -> None:
        """Make the file that the engine waits for."""
        self._go.with_name(f"go{which}").touch()

    async def error(self) -> EngineError:
        with pytest.raises(EngineError) as error:
            await self.work
        assert self.board.phase == "failed"
        return error.value


async def test_an_engine_that_hangs_is_ended(tmp_path: Path) -> None:
    """With an exit code and a reason of its own, and with its last line."""
    start = Start(tmp_path, HANGS, LIMIT_S)
    await start.prints("Loading")
    start.clock.move(LIMIT_S)
    error = await start.error()
    assert isinstance(error, StartTimeoutError)
    assert (error.exit_code, error.reason) == (5, "StartTimeout")
    message = r'the engine has not answered, and for \d{4} s said nothing new; its last line was "Loading"'
    assert re.match(message, str(error))
    assert '"reason": "StartTimeout"' in termination.last_words(error)


async def test_the_same_words_again_are_silence(tmp_path: Path) -> None:
    """Half of the limit passes before it says them again, and half after it."""
    start = Start(tmp_path, REPEATS, LIMIT_S)
    await start.prints("nobody fills the queue", 2)
    start.clock.move(LIMIT_S / 2)
    await start.prints("nobody fills the queue", len(start.supervisor.output.lines) + 2)
    start.clock.move(LIMIT_S / 2)
    assert isinstance(await start.error(), StartTimeoutError)


async def test_an_engine_that_says_something_may_take_its_time(tmp_path: Path) -> None:
    """It loads for four limits, and ends by itself."""
    start = Start(tmp_path, LOADS, LIMIT_S)
    for shard in range(5):
        await start.prints(f"shard {shard}")
        start.clock.move(0.8 * LIMIT_S)
        start.goes_on(str(shard))
    error = await start.error()
    assert (error.exit_code, type(error)) == (7, EngineError)


async def test_never(tmp_path: Path) -> None:
    """Without a limit silence is none."""
    start = Start(tmp_path, WAIT + "import sys; print('up', flush=True); wait(sys.argv[1]); sys.exit(8)", None)
    await start.prints("up")
    start.clock.move(30 * 86400)
    start.goes_on()
    assert (await start.error()).exit_code == 8


async def test_once_it_answers_it_may_be_silent(tmp_path: Path, free_port: int) -> None:
    """The limit is for the start alone."""
    start = Start(tmp_path, SERVES.format(port=free_port), LIMIT_S, f"http://127.0.0.1:{free_port}/")
    await wait_until_async(lambda: start.board.phase == "serving", "the engine's answer")
    start.clock.move(2 * LIMIT_S)
    start.goes_on()
    assert (await start.error()).exit_code == 9


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
        "worker = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(worker.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    output = OutputTail(sys.stdout.buffer)
    child = await Child.start((sys.executable, "-c", program), output, {})
    async with asyncio.timeout(HANG_S):
        assert await child.ended == -9
    worker = int(output.lines[0])
    await wait_until_async(lambda: not _lives(worker), "the worker's end")


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
    monkeypatch.setattr("windlass.child.process.CHILDREN", children)
    monkeypatch.setattr(Child, "waited_for", {12})
    monkeypatch.setattr(os, "waitpid", lambda pid, _: buried.append(pid))
    bury()
    assert buried == [11, 13]
