"""An engine that hangs, as the supervisor sees it: a real child, and an API whose probes say so."""

import asyncio
import json
import sys

import pytest
from windlass.errors import EngineStalledError
from windlass.front.progress.rule import RESTART_S
from windlass.front.progress.watch import HEADER
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.supervise import Engine, Supervisor
from windlass_testbed.simulated_time import ClockAhead
from windlass_testbed.waiting import wait_until_async

STAYS = "import signal; print('INFO 11-24 10:00:00 [core.py:1] last step', flush=True); signal.pause()"
STUCK = "the engine holds 3 requests and has ended no step for 300 s"
TOLD = (503, json.dumps({"error": {"message": STUCK}}), {HEADER: "1"})
OTHER = (503, json.dumps({"error": {"message": "the engine is dead"}}))
WELL = (200, "")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.supervisor.asking.HEALTH_EVERY_S", 0.05)
    monkeypatch.setattr("windlass.supervisor.asking.HANG_EVERY_S", 0.05)


class Life:
    """A server that is well at its start; then its probes hear `now`. The test moves the clock."""

    def __init__(self, serve) -> None:
        self.now, self.clock = WELL, ClockAhead()
        self.board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
        self.server = serve(lambda _: self.now)
        engine = Engine((sys.executable, "-c", STAYS), f"{self.server.url}/health")
        self.supervisor = Supervisor(engine, self.board, None)
        self.work = asyncio.create_task(self.supervisor.run())

    async def hangs(self) -> None:
        await wait_until_async(lambda: self.board.phase == "serving" and self.supervisor.output.lines)
        self.now = TOLD
        await wait_until_async(lambda: self.board.is_stalled)

    async def is_judged(self) -> None:
        """Wait until two more probes were answered, so the first of them was judged."""
        before = len(self.server.seen)
        await wait_until_async(lambda: len(self.server.seen) > before + 2)


async def test_a_hang_that_lasts_ends_the_engine(serve) -> None:
    """The facts tell it at once; the error says what the engine did last, and how long it hung."""
    life = Life(serve)
    await life.hangs()
    assert life.board.to_dict()["stalled"] == STUCK
    await life.is_judged()
    assert not life.work.done()
    life.clock.move(RESTART_S)
    with pytest.raises(EngineStalledError) as error:
        await life.work
    assert str(error.value) == f'{STUCK}; the last line of its log was "last step"'
    assert (error.value.exit_code, error.value.reason, life.board.phase) == (9, "EngineStalled", "failed")


@pytest.mark.parametrize("after", [WELL, OTHER], ids=["well again", "unwell otherwise"])
async def test_a_hang_that_ends_is_forgotten(serve, after) -> None:
    """A step came; and a refusal of another kind is the kubelet's to judge."""
    life = Life(serve)
    await life.hangs()
    life.now = after
    await wait_until_async(lambda: not life.board.is_stalled)
    life.clock.move(10 * RESTART_S)
    await life.is_judged()
    assert "stalled" not in life.board.to_dict()
    life.now = TOLD  # it waits anew
    await wait_until_async(lambda: life.board.is_stalled)
    await life.is_judged()
    assert not life.work.done()
    life.work.cancel()
    await asyncio.gather(life.work, return_exceptions=True)
    await life.supervisor._child.stop(0.1)
