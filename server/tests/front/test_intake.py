"""Reading bodies: sizes, shares and time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.front import intake
from windlass.front.budget import Budget, Shares
from windlass.front.intake import Begun, Gone, Hold, Intake
from windlass.front.refusal import Refusal
from windlass_testbed.simulated_time import elapse, passed_s

pytestmark = pytest.mark.simulated_time


def scope(*headers: tuple[bytes, bytes]) -> dict:
    return {"headers": list(headers)}


def length(size: int) -> dict:
    return scope((b"content-length", b"%d" % size))


def client(*pieces: bytes, ends: bool = True):
    """A client that sends these pieces, then its end or nothing more."""
    left = list(pieces)

    async def receive() -> dict:
        if not left and not ends:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not ends}

    return receive


async def gone() -> dict:
    return {"type": "http.disconnect"}


async def test_what_is_read_is_held_and_released() -> None:
    """Announced or in pieces; a second release does nothing."""
    for head in (length(6), scope((b"transfer-encoding", b"chunked"))):
        budget = Budget(10)
        hold = Hold(budget, "a", shared=False)
        assert await Intake(head, client(b"123", b"456"), 100, hold).read() == b"123456"
        assert budget.shares.held_bytes == 6
        hold.release()
        hold.release()
        assert budget.shares.held_bytes == 0


@pytest.mark.parametrize("said", [b"101", b"9" * 400, b"9" * 5000])
def test_what_is_announced_too_large_is_refused_unread(said: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        Intake(scope((b"content-length", said)), gone, 100, Hold(Budget(10), "a", shared=False))
    assert caught.value.status == 413


async def test_pieces_that_grow_too_large_are_refused() -> None:
    one = Intake(scope((b"transfer-encoding", b"chunked")), client(b"12", b"34"), 3, Hold(Budget(9), "a", shared=False))
    with pytest.raises(Refusal) as caught:
        await one.read()
    assert (caught.value.status, one.is_small) == (413, False)


async def test_a_body_that_does_not_come_is_refused() -> None:
    """With 408, and its connection ends."""
    one = Intake(length(9), client(b"12", ends=False), 100, Hold(Budget(9), "a", shared=False))
    with pytest.raises(Refusal) as caught:
        await one.read()
    assert passed_s() == pytest.approx(intake.BODY_TIMEOUT_S, abs=1)
    assert (caught.value.status, caught.value.headers) == (408, (("connection", "close"),))


async def test_a_client_that_leaves_is_gone() -> None:
    with pytest.raises(Gone):
        await Intake(length(9), gone, 100, Hold(Budget(9), "a", shared=False)).read()


async def test_a_body_waits_for_room() -> None:
    """Until another one is released; not for ever."""
    budget = Budget(10)
    first, second, third = (Hold(budget, "a", shared=False) for _ in range(3))
    await first.more(8)
    waiting = asyncio.create_task(second.more(8))
    await elapse(intake.ROOM_TIMEOUT_S / 2)
    assert not waiting.done()
    first.release()
    await waiting
    with pytest.raises(Refusal) as caught:
        await third.more(8)
    assert caught.value.status == 429
    assert budget.shares.held_bytes == 8


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=60))
def test_no_key_takes_what_another_needs(asked: list[tuple[str, int]]) -> None:
    """However three keys ask, the bound holds and a fourth one finds room."""
    shares = Shares(100)
    for key, size in asked:
        if shares.fits(key, size, shared=True):
            shares.take(key, size)
    assert shares.held_bytes < 100
    assert shares.fits("d", (100 - shares.held_bytes) // 2, shared=True)


async def test_what_is_there_already_is_taken_without_waiting() -> None:
    """The first step of a `receive` that has its message is its last."""

    async def there() -> str:
        return "now"

    begun = Begun(there())
    assert (begun.is_waiting, begun.result) == (False, "now")


async def test_what_is_not_there_is_waited_for_from_the_first_step_on() -> None:
    """Each step runs once, several futures one after the other."""
    first, second = asyncio.Event(), asyncio.Event()
    steps: list[str] = []

    async def later() -> str:
        steps.append("begun")
        await first.wait()
        steps.append("first")
        await second.wait()
        return "later"

    begun = Begun(later())
    assert begun.is_waiting
    asyncio.get_running_loop().call_soon(first.set)
    asyncio.get_running_loop().call_soon(second.set)
    await begun
    assert (steps, begun.is_waiting, begun.result) == (["begun", "first"], False, "later")


async def test_a_cancellation_reaches_what_is_waited_for() -> None:
    """A deadline ends the server's `receive` as if it had been awaited plainly."""
    ended = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    begun = Begun(forever())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):  # clock: it has passed
            await begun
    assert ended == [True]


async def test_what_fails_at_once_raises_at_once() -> None:
    """A broken connection is told as it is."""

    async def broken() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        Begun(broken())
