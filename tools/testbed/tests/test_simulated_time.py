"""Simulated time of tests: it jumps when nothing can run, stands still for threads, and a real clock can be moved."""

import asyncio
import threading
import time

import pytest
from windlass_testbed.simulated_time import (
    ARRIVAL_S,
    START_S,
    ClockAhead,
    SimulatedLoop,
    await_thread,
    elapse,
    passed_s,
)


@pytest.mark.simulated_time
async def test_a_year_passes_await_thread_and_in_order() -> None:
    """Timers come when they are due, and the clock shows that time."""
    heard: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()
    loop.call_later(7200, lambda: heard.append(("two hours", loop.time())))
    loop.call_later(3600, lambda: heard.append(("one hour", loop.time())))
    await elapse(365 * 86400)
    assert heard == [("one hour", START_S + 3600), ("two hours", START_S + 7200)]


@pytest.mark.simulated_time
async def test_a_limit_ends_what_never_comes() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(600):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == pytest.approx(START_S + 600)  # clock: the simulated one


@pytest.mark.simulated_time
async def test_a_thread_takes_no_time() -> None:
    """A limit does not pass while a thread works, however long that is."""
    begun, go = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert go.wait(60)
        return "done"

    working = asyncio.create_task(asyncio.to_thread(work))
    asyncio.get_running_loop().call_later(0, lambda: threading.Thread(target=go.set).start())
    async with asyncio.timeout(0.001):  # clock: simulated
        assert await working == "done"
    assert begun.is_set()


@pytest.mark.simulated_time
async def test_a_thread_of_the_product_takes_no_time() -> None:
    """The loop did not start it and hears of it at its end alone, long after the clock would have jumped."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set_result, "done"))
    late = threading.Timer(10 * ARRIVAL_S, thread.start)
    late.start()
    async with asyncio.timeout(0.001):  # clock: simulated
        assert await await_thread(done) == "done"
    assert passed_s() == 0


@pytest.mark.simulated_time
async def test_bytes_arrive_before_time_passes() -> None:
    """Both ends of a connection are in this loop."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"hello\n")
        assert await reader.read() == b"hello\n"
        writer.close()
    assert asyncio.get_running_loop().time() == START_S  # clock: the simulated one


async def test_a_real_loop_lets_no_simulated_time_pass() -> None:
    assert not isinstance(asyncio.get_running_loop(), SimulatedLoop)
    with pytest.raises(TypeError, match="mark the test `simulated_time`"):
        await elapse(1)


async def test_a_clock_is_moved_past_a_limit() -> None:
    """The limit is an hour; nobody waits for it."""
    clock, began = ClockAhead(), time.monotonic()
    waits = asyncio.create_task(asyncio.sleep(3600))  # clock: moved ahead below
    await asyncio.sleep(0)
    assert not waits.done()
    clock.move(3600)
    await waits
    assert asyncio.get_running_loop().time() - began >= 3600  # clock: moved, not waited for
