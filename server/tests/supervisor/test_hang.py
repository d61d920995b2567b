"""An engine that hangs, as the supervisor sees it: a real child, and an API whose probes say so."""

import asyncio
import json
import sys

import pytest
from windlass.errors import EngineStalledError
from windlass.progress.watch import HEADER
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.supervise import Engine, Supervisor

STAYS = "import time; print('INFO 11-24 10:00:00 [core.py:1] last step', flush=True); time.sleep(60)"
STUCK = "the engine holds 3 requests and has ended no step for 300 s"
TOLD = (503, json.dumps({"error": {"message": STUCK}}), {HEADER: "1"})
OTHER = (503, json.dumps({"error": {"message": "the engine is dead"}}))
WELL = (200, "")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.supervisor.asking.HEALTH_EVERY_S", 0.05)
    monkeypatch.setattr("windlass.supervisor.asking.HANG_EVERY_S", 0.05)
    monkeypatch.setattr("windlass.supervisor.asking.RESTART_S", 1)


class Life:
    """A server that is well at its start; then its probes hear `now`."""

    def __init__(self, serve) -> None:
        self.now = WELL
        self.board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
        url = serve(lambda _: self.now).url
        self.supervisor = Supervisor(Engine((sys.executable, "-c", STAYS), f"{url}/health"), self.board, None)
        self.work = asyncio.create_task(self.supervisor.run())

    async def until(self, condition) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  another process has no event
                await asyncio.sleep(0.02)

    async def hangs(self) -> None:
        await self.until(lambda: self.board.phase == "serving")
        self.now = TOLD
        await self.until(lambda: self.board.is_stalled)


async def test_a_hang_that_lasts_ends_the_engine(serve) -> None:
    """The facts tell it at once; the error says what the engine did last, and how long it hung."""
    life = Life(serve)
    await life.hangs()
    assert life.board.to_dict()["stalled"] == STUCK
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
    await life.until(lambda: not life.board.is_stalled)
    await asyncio.sleep(1.5)
    assert not life.work.done()
    assert "stalled" not in life.board.to_dict()
    life.work.cancel()
    await asyncio.gather(life.work, return_exceptions=True)
    await life.supervisor._child.stop(0.1)
