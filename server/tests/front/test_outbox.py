"""Slow readers: what they have not read waits without holding a place, up to a bound."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from windlass.api.guard import Guard
from windlass.front.budget import Shares
from windlass.front.connections import UNKNOWN, Connection
from windlass.front.outbox import Outbox, Reader, Stock
from windlass_testbed.simulated_time import elapse, passed_s

pytestmark = pytest.mark.simulated_time
START = {"type": "http.response.start", "status": 200, "headers": []}


def piece(text: bytes, *, last: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text, "more_body": not last}


class Client:
    """Reads when it may; afterwards it goes away when it is told to."""

    def __init__(self, *, reads: bool = True) -> None:
        self.may_read, self.got = asyncio.Event(), list[bytes]()
        if reads:
            self.may_read.set()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.may_read.wait()
        if message["type"] == "http.response.body":
            self.got.append(message["body"])


async def test_a_reader_has_each_piece_before_the_next() -> None:
    """In order, and at once."""
    client, stock = Client(), Stock()
    outbox = Outbox(client.send, stock)
    await outbox(START)
    for number in range(3):
        await outbox(piece(b"%d" % number, last=number == 2))
        assert len(client.got) == number + 1
    await outbox.close()
    assert (client.got, stock.unread_bytes) == ([b"0", b"1", b"2"], 0)


async def test_the_bound_holds_for_all_answers_together() -> None:
    """Within it nobody waits; beyond it an answer waits for its own reader."""
    slow, other, stock = Client(reads=False), Client(reads=False), Stock(Shares(10))
    first, second = Outbox(slow.send, stock), Outbox(other.send, stock)
    await first(piece(b"12345"))
    await second(piece(b"12345"))
    blocked = asyncio.create_task(first(piece(b"6", last=True)))
    await elapse(1)
    assert (blocked.done(), stock.unread_bytes) == (False, 10)
    slow.may_read.set()
    await blocked
    await first.close()
    other.may_read.set()
    await second.close()
    assert (slow.got, other.got, stock.unread_bytes) == ([b"12345", b"6"], [b"12345"], 0)


async def test_a_keys_share_leaves_room_for_others() -> None:
    """A key holds as much as is free; another key's answer is not held up by it."""
    slow, other, stock = Client(reads=False), Client(reads=False), Stock(Shares(12))
    first = Outbox(slow.send, stock, Reader("a", shared=True))
    second = Outbox(other.send, stock, Reader("b", shared=True))
    await first(piece(b"12345"))
    blocked = asyncio.create_task(first(piece(b"12345")))
    await elapse(1)
    assert not blocked.done()
    await second(piece(b"123"))
    assert stock.unread_bytes == 8
    for client in (slow, other):
        client.may_read.set()
    await blocked
    await first.close()
    await second.close()
    assert stock.unread_bytes == 0


async def test_a_reader_that_takes_nothing_is_ended() -> None:
    """Its connection ends, what it had not read is given up, and what is still made for it goes nowhere."""
    slow, stock, ended = Client(reads=False), Stock(Shares(10)), asyncio.Event()
    outbox = Outbox(slow.send, stock, Reader(connection=Connection(UNKNOWN.flow, ended.set), timeout_s=40))
    await outbox(piece(b"12345"))
    await outbox(piece(b"12345"))
    await ended.wait()
    assert passed_s() == pytest.approx(40)
    await outbox(piece(b"6"))
    await outbox.close()
    assert (slow.got, stock.unread_bytes, stock.ended) == ([], 0, 1)


async def test_a_broken_connection_is_raised_where_pieces_are_made() -> None:
    """The next piece hears of it, and nothing stays behind."""
    stock = Stock()

    async def broken(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            raise ConnectionResetError("gone")

    outbox = Outbox(broken, stock)
    await outbox(START)
    await outbox(piece(b"1"))
    with pytest.raises(ConnectionResetError):
        await outbox(piece(b"2"))
    with pytest.raises(ConnectionResetError):
        await outbox.close()
    assert stock.unread_bytes == 0


async def test_a_cancelled_request_leaves_nothing() -> None:
    """The server is stopped while a client does not read."""
    client, stock = Client(reads=False), Stock()
    outbox = Outbox(client.send, stock)
    await outbox(piece(b"12345"))
    closing = asyncio.create_task(outbox.close())
    await elapse(1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert stock.unread_bytes == 0


async def test_who_does_not_read_holds_no_place() -> None:
    """With one place, the second request is answered while the first is unread."""

    async def engine(scope, receive, send) -> None:
        await receive()
        await send(START)
        await send(piece(b"data: 1\n\n"))
        await send(piece(b"data: [DONE]\n\n", last=True))

    def asking() -> Callable[[], Awaitable[dict[str, Any]]]:
        bodies = [b"{}"]

        async def receive() -> dict[str, Any]:
            if not bodies:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": bodies.pop()}

        return receive

    guard = Guard(engine, {"WINDLASS_API": '{"concurrency": 1, "queue": 1}'})
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"content-length", b"2")]}
    stalled, quick = Client(), Client()

    async def stall(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            stalled.may_read.clear()
        await stalled.send(message)

    first = asyncio.create_task(guard(scope, asking(), stall))
    await elapse(1)
    await guard(scope, asking(), quick.send)
    assert (quick.got, stalled.got, first.done()) == ([b"data: 1\n\n", b"data: [DONE]\n\n"], [], False)
    first.cancel()
    await asyncio.wait({first})
    assert first.cancelled()


class Line:
    """A connection that takes pieces until it is told not to."""

    def __init__(self) -> None:
        self.write_paused = False


async def test_a_reader_that_takes_all_is_written_to_without_a_task() -> None:
    """The server's own `send` is what the application awaits."""
    client, stock, line = Client(), Stock(), Line()
    outbox = Outbox(client.send, stock, Reader(connection=Connection(line, lambda: None)))
    before = len(asyncio.all_tasks())
    await outbox(START)
    await outbox(piece(b"0"))
    assert (client.got, len(asyncio.all_tasks()), stock.unread_bytes) == ([b"0"], before, 0)
    await outbox.close()


async def test_pieces_stay_in_order_when_a_reader_stops_and_goes_on() -> None:
    """What waits goes first, also after the connection takes pieces again."""
    client, stock, line = Client(), Stock(), Line()
    outbox = Outbox(client.send, stock, Reader("a", connection=Connection(line, lambda: None)))
    await outbox(piece(b"0"))
    client.may_read.clear()
    line.write_paused = True
    await outbox(piece(b"1"))
    await outbox(piece(b"2"))
    line.write_paused = False
    await outbox(piece(b"3"))
    assert (client.got, stock.unread_bytes) == ([b"0"], 3)
    client.may_read.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert stock.unread_bytes == 0
    await outbox(piece(b"4", last=True))
    await outbox.close()
    assert (client.got, stock.unread_bytes) == ([b"0", b"1", b"2", b"3", b"4"], 0)
