"""Several engines behind one desk: requests go where the fewest are, and one that fails fails all."""

import asyncio

import pytest
from windlass_deepspeed.api.exchange import Desk
from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.pool import Pool
from windlass_deepspeed.sampling import Sampling
from windlass_deepspeed.schedule import Limits
from windlass_testbed.waiting import wait_until, wait_until_async

from .echo import EOS, Echo, Letters, figure

ENDLESS = [ord("a"), ord("…")]


def a_pool(engines: list[Echo], metrics: Metrics) -> Pool:
    limits, stops = Limits(4, 0.01), frozenset({EOS})
    return Pool([Batcher(one, Letters().decode, stops, limits, metrics, number) for number, one in enumerate(engines)])


async def text(desk: Desk, words: str) -> str:
    return "".join([piece.text async for piece in desk.pieces(Letters().encode(words), Sampling(max_tokens=30))])


def test_requests_are_shared_and_answers_are_not_mixed_up() -> None:
    """Six at once: three for each engine, each with its own answer; the metrics are those of both."""
    engines, metrics = [Echo(), Echo()], Metrics()
    pool = a_pool(engines, metrics)
    desk = Desk(pool, 12)

    async def ask() -> list[str]:
        answers = asyncio.gather(*(text(desk, f"row {number}") for number in range(6)))
        await wait_until_async(lambda: sum(one.load for one in pool._batchers) == 6)
        for engine in engines:
            engine.held.set()
        return await answers

    for engine in engines:
        engine.held.clear()
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
        keys = [pool.submit(ENDLESS, Sampling(max_tokens=10**9), lambda _: None) for _ in range(3)]
        wait_until(lambda: sorted(len(one.rows) for one in engines) == [1, 2])
        pool.cancel(keys[1])
        wait_until(lambda: [len(one.rows) for one in engines] == [2, 0])
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
        wait_until(lambda: pool.failed)
        assert not pool.healthy
        with pytest.raises(RequestError, match="the engine has stopped"):
            pool.submit(ENDLESS, Sampling(max_tokens=5), lambda _: None)
    finally:
        pool.close()
