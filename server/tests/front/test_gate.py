"""Waiting for a place: disconnects, displacement and the end of the server."""

import asyncio
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.api.guard import Guard
from windlass.api.stopping import on_stop
from windlass.front.gate import Gate, retry_after_s
from windlass.front.refusal import Refusal
from windlass_testbed.waiting import wait_until_async


async def never() -> dict:
    """A client that stays."""
    await asyncio.Event().wait()
    return {}


async def gone() -> dict:
    """A client that left."""
    return {"type": "http.disconnect"}


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_client_that_leaves_while_waiting_frees_its_place() -> None:
    """And the engine never hears of it."""
    gate = Gate(1, 1)
    running, waiting = gate.enter("a"), gate.enter("b")
    assert await running.wait(never)
    assert not await waiting.wait(gone)
    waiting.leave()
    assert (gate.running, gate.waiting) == (1, 0)
    assert gate.enter("c") is not None


async def test_a_client_that_leaves_while_running_frees_its_place_at_once() -> None:
    """Even before the engine has ended its work; once only."""
    left = asyncio.Event()
    finish = asyncio.Event()

    async def engine(scope, receive, send) -> None:
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        left.set()
        await finish.wait()

    bodies = [{"type": "http.request", "body": b"{}"}, {"type": "http.disconnect"}]

    async def receive() -> dict:
        return bodies.pop(0)

    guard = Guard(engine, {"WINDLASS_API": '{"concurrency": 1}'})
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"content-length", b"2")]}
    request = asyncio.create_task(guard(scope, receive, None))
    await left.wait()
    assert guard.state.gate.running == 0
    other = guard.state.gate.enter("")
    finish.set()
    await request
    assert guard.state.gate.running == 1
    other.leave()


async def test_a_cancelled_wait_loses_no_place() -> None:
    """The next one still gets its turn."""
    gate = Gate(1, 2)
    first, second, third = gate.enter("a"), gate.enter("a"), gate.enter("a")

    async def wait_second() -> None:
        try:
            await second.wait(never)
        finally:
            second.leave()

    task = asyncio.create_task(wait_second())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    first.leave()
    assert await third.wait(never)


async def test_a_flood_of_one_key_does_not_keep_another_out() -> None:
    """The newest of the flood makes room and is told to come back."""
    gate = Gate(1, 3)
    places = [gate.enter("flood") for _ in range(4)]
    with pytest.raises(Refusal) as refused:
        gate.enter("flood")
    assert refused.value.status == 429
    other = gate.enter("quiet")
    with pytest.raises(Refusal) as displaced:
        await places[-1].wait(never)
    assert displaced.value.status == 429
    places[0].leave()
    assert await places[1].wait(never)
    places[1].leave()
    assert await other.wait(never)


async def test_at_the_end_waiting_requests_are_refused_and_running_ones_go_on() -> None:
    """503 with a time, for the ones who come too."""
    gate = Gate(1, 1)
    running, waiting = gate.enter("a"), gate.enter("a")
    wait = asyncio.create_task(waiting.wait(never))
    await settle()
    gate.stop()
    with pytest.raises(Refusal) as told:
        await wait
    with pytest.raises(Refusal) as refused:
        gate.enter("a")
    assert (told.value.status, refused.value.status) == (503, 503)
    assert dict(refused.value.headers)["retry-after"].isdigit()
    assert gate.running == 1
    running.leave()
    assert gate.running == 0


async def test_the_signal_to_stop_reaches_gate_and_engine() -> None:
    """The guard learns it at the start of the application, and takes nothing from the engine."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    heard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, heard.append, "engine")

    async def application(scope, receive, send) -> None:
        await send({"type": "lifespan.startup.complete"})

    async def send(message) -> None:
        heard.append(message["type"])

    try:
        guard = Guard(application, {})
        await guard({"type": "lifespan"}, None, send)
        signal.raise_signal(signal.SIGTERM)
        await wait_until_async(lambda: len(heard) > 1)
        assert heard == ["lifespan.startup.complete", "engine"]
        assert guard.state.gate.is_stopping
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def test_a_default_action_stays() -> None:
    """A handler in its place would keep the process alive."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        on_stop(lambda: None)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)


@given(waiting=st.integers(0, 10**6), limit=st.integers(1, 10**4), mean_s=st.floats(0, 10**6))
def test_the_time_to_come_back_is_sane(waiting: int, limit: int, mean_s: float) -> None:
    """From one second to one minute, and longer the more wait."""
    seconds = retry_after_s(waiting, limit, mean_s)
    assert 1 <= seconds <= 60
    assert retry_after_s(waiting + 1, limit, mean_s) >= seconds


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 3)), max_size=40))
def test_never_more_run_than_may(requests: list[tuple[str, bool, int]]) -> None:
    """Any mix of keys, patient and leaving clients: bounded, and everybody ends."""

    async def play() -> None:
        gate = Gate(2, 5)
        running = most = ended = 0

        async def one(key: str, leaves: bool, steps: int) -> None:
            nonlocal running, most, ended
            try:
                place = gate.enter(key)
            except Refusal:
                ended += 1
                return
            try:
                if await place.wait(gone if leaves else never):
                    running += 1
                    most = max(most, running)
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    running -= 1
            except Refusal as refusal:
                assert refusal.status == 429
            finally:
                place.leave()
                ended += 1

        await asyncio.gather(*(one(*request) for request in requests))
        assert most <= 2
        assert ended == len(requests)
        assert (gate.running, gate.waiting) == (0, 0)

    asyncio.run(play())


async def test_the_time_in_the_queue_is_counted() -> None:
    """Once for each place that was granted, from asking to being granted."""
    now = [100.0]
    gate = Gate(1, 8, lambda: now[0])
    first, second, third = gate.enter("a"), gate.enter("a"), gate.enter("a")
    now[0] = 103.0
    first.leave()
    third.leave()
    now[0] = 105.0
    second.leave()
    assert (gate.granted, gate.waited_s) == (2, 3.0)
