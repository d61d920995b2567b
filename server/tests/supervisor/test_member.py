"""The supervisor of a group's member: a scripted engine, and a membership that does what the test says."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from windlass.errors import EngineError, MemberLostError, WindlassError
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.supervise import Engine, Supervisor
from windlass_testbed.waiting import HANG_S, wait_until_async

from .conftest import WAIT

LOST = MemberLostError("member 2 of 3 ended: out of memory", 2)
PEER = (
    "print('RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:11701', flush=True); raise SystemExit(1)"
)
OWN = "raise ValueError('weights are broken')"
STAYS = "import signal; print('up', flush=True); signal.pause()"

ENDS_LATE = (
    WAIT
    + """
import signal, sys
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the group's end sends it once more
    os.write(1, b"ending\\n")  # whole: a second signal may come in the middle of a print
    wait(GO)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
os.write(1, b"up\\n")
signal.pause()
"""
)


class Scripted:
    """A membership; `lose` is when `run` raises: nobody goes before."""

    def __init__(self) -> None:
        self.lose, self.go, self.serves = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.told_serving = False
        self.parted: list[WindlassError | None] = []
        self.running_at_part: bool | None = None
        self._running = False

    async def run(self) -> None:
        self._running = True
        try:
            await self.lose.wait()
            raise LOST
        finally:
            self._running = False

    async def ready(self) -> None:
        await self.go.wait()

    async def served(self) -> None:
        await self.serves.wait()

    async def serving(self) -> None:
        self.told_serving = True

    async def part(self, error: WindlassError | None) -> None:
        self.parted.append(error)
        self.running_at_part = self._running


def supervisor(program: str, membership: Scripted) -> tuple[Supervisor, FactsBoard]:
    board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
    return Supervisor(Engine((sys.executable, "-c", program), ""), board, None, membership=membership), board


async def test_a_follower_from_start_to_stop() -> None:
    """No engine before go; it serves when the head says so; told to stop it says so while it is connected."""
    group = Scripted()
    ours, board = supervisor(STAYS, group)
    work = asyncio.create_task(ours.run())
    await wait_until_async(lambda: board.phase == "group")
    assert ours._child is None
    group.go.set()
    await wait_until_async(lambda: ours.output.lines == ("up",))
    assert board.phase == "engine"
    group.serves.set()
    await wait_until_async(lambda: board.phase == "serving")
    assert group.told_serving
    os.kill(os.getpid(), signal.SIGTERM)
    assert await work == 128 + signal.SIGTERM
    assert (group.parted, group.running_at_part) == ([None], True)


async def test_a_member_lost_ends_the_engine() -> None:
    """With the code that names the member; the others hear of the same one."""
    group = Scripted()
    ours, board = supervisor(STAYS, group)
    work = asyncio.create_task(ours.run())
    group.go.set()
    await wait_until_async(lambda: ours.output.lines == ("up",))
    group.lose.set()
    with pytest.raises(MemberLostError, match="member 2 of 3 ended: out of memory") as error:
        await work
    assert error.value.exit_code == 102
    assert (group.parted, board.phase) == ([LOST], "failed")


async def test_a_member_lost_before_go() -> None:
    """There is no engine to end."""
    group = Scripted()
    ours, _ = supervisor(STAYS, group)
    group.lose.set()
    with pytest.raises(MemberLostError):
        await ours.run()
    assert ours._child is None


async def test_an_engine_that_lost_its_peer_is_no_culprit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own error comes first, the other's word after it: the word counts."""
    monkeypatch.setattr("windlass.supervisor.supervise.CULPRIT_WAIT_S", HANG_S)
    group = Scripted()
    ours, _ = supervisor(PEER, group)
    group.go.set()
    work = asyncio.create_task(ours.run())
    await wait_until_async(lambda: ours._child and ours._child.ended.done(), "the engine's end")
    group.lose.set()
    with pytest.raises(MemberLostError):
        await work


@pytest.mark.parametrize("program", [PEER, OWN], ids=["nobody says more", "an error of its own"])
async def test_an_engine_that_failed_itself(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word of another member the engine's own error stands."""
    monkeypatch.setattr("windlass.supervisor.supervise.CULPRIT_WAIT_S", 0.2)
    group = Scripted()
    ours, _ = supervisor(program, group)
    group.go.set()
    with pytest.raises(EngineError) as error:
        await ours.run()
    assert group.parted == [error.value]


async def test_stop_while_others_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that was told to stop ended well, whoever went first."""
    monkeypatch.setattr("windlass.supervisor.supervise.GROUP_STOP_S_MAX", HANG_S)
    monkeypatch.setattr("windlass.supervisor.supervise.START_STOP_S_MAX", HANG_S)
    go = tmp_path / "go"
    group = Scripted()
    ours, _ = supervisor(ENDS_LATE.replace("GO", repr(str(go))), group)
    work = asyncio.create_task(ours.run())
    group.go.set()
    await wait_until_async(lambda: ours.output.lines == ("up",))
    os.kill(os.getpid(), signal.SIGTERM)
    await wait_until_async(lambda: "ending" in ours.output.lines)
    group.lose.set()
    await wait_until_async(ours._guards[0].done)
    go.touch()
    assert await work == 0
