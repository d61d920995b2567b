"""Several engines behind one desk: requests go where the fewest are, and one that fails fails all."""

import asyncio
import time
from collections.abc import Callable

import pytest
from windlass_deepspeed.api.exchange import Desk
from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.pool import Pool
from windlass_deepspeed.sampling import Sampling
from windlass_deepspeed.schedule import Limits

from .echo import EOS, Echo, Letters, figure

ENDLESS = [ord("a"), ord("…")]


def a_pool(engines: list[Echo], metrics: Metrics) -> Pool:
    limits, stops = Limits(4, 0.01), frozenset({EOS})
    return Pool([Batcher(one, Letters().decode, stops, limits, metrics, number) for number, one in enumerate(engines)])


async def text(desk: Desk, words: str) -> str:
    return "".join([piece.text async for piece in desk.pieces(Letters().encode(words), Sampling(max_tokens=30))])


def test_requests_are_shared_and_answers_are_not_mixed_up() -> None:
    """Six at once: three for each engine, each with its own answer; the metrics are those of both."""
    engines, metrics = [Echo(step_s=0.02), Echo(step_s=0.02)], Metrics()
    pool = a_pool(engines, metrics)
    desk = Desk(pool, 12)

    async def ask() -> list[str]:
        return await asyncio.gather(*(text(desk, f"row {number}") for number in range(6)))

    pool.start()
    try:
        assert [f"row {number}" for number in range(6)] == asyncio.run(ask())
    finally:
        pool.close()
    joined = [figure(metrics, f'windlass_deepspeed_joined_total{{engine="{number}"}}') for number in (0, 1)]
    assert joined == [3.0, 3.0]
    assert figure(metrics, "windlass_deepspeed_requests_running") == 0


def test_a_cancelled_request_frees_its_own_row() -> None:
    """The key leads to the engine that has it."""
    engines = [Echo(step_s=0.01), Echo(step_s=0.01)]
    pool = a_pool(engines, Metrics())
    pool.start()
    try:
        keys = [pool.submit(ENDLESS, Sampling(max_tokens=10_000), lambda _: None) for _ in range(3)]
        wait(lambda: sorted(len(one.rows) for one in engines) == [1, 2])
        pool.cancel(keys[1])
        wait(lambda: [len(one.rows) for one in engines] == [2, 0])
    finally:
        pool.close()


def test_one_broken_engine_fails_the_server() -> None:
    """Nothing new is taken, not by the other engine either: the container is about to end."""
    engines = [Echo(), Echo(broken=True)]
    pool = a_pool(engines, Metrics())
    pool.start()
    try:
        assert (pool.healthy, pool.failed) == (True, False)
        for _ in range(2):
            pool.submit(ENDLESS, Sampling(max_tokens=5), lambda _: None)
        wait(lambda: pool.failed)
        assert not pool.healthy
        with pytest.raises(RequestError, match="the engine has stopped"):
            pool.submit(ENDLESS, Sampling(max_tokens=5), lambda _: None)
    finally:
        pool.close()


def wait(condition: Callable[[], bool]) -> None:
    """Return when it is true; fail after ten seconds."""
    end_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)
