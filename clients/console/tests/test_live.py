"""Live lists: one watch for all streams of a user, the last state of each service alone, and an end that all see."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from windlass_base.kube.errors import ClientError, ForbiddenError
from windlass_client.line_queue import HELD_MAX
from windlass_client.values import LogLine, WatchEvent, service_of
from windlass_console.http.sse import COMMENT, _bytes, encoded
from windlass_console.http.streams import PIECE_MAX, _lines
from windlass_console.live import outbox
from windlass_console.live.feed import Feeds
from windlass_testbed.waiting import HANG_S, wait_until_async


class Watched:
    """A client whose watch tells what the test puts in."""

    def __init__(self) -> None:
        self.queues: defaultdict[str, asyncio.Queue[WatchEvent | Exception | None]] = defaultdict(asyncio.Queue)
        self.watches = 0

    @property
    def changes(self) -> asyncio.Queue[WatchEvent | Exception | None]:
        """Of the namespace a."""
        return self.queues["a"]

    async def watch(self, namespace: str, *, on_listed: Callable[[], None]) -> AsyncIterator[WatchEvent]:
        self.watches += 1
        while True:
            change = await self.queues[namespace].get()
            if isinstance(change, Exception):
                raise change
            if change is None:
                on_listed()
            else:
                yield change


def an_event(name: str, kind: Any = "ADDED", replicas: int = 1) -> WatchEvent:
    spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "replicas": replicas}
    return WatchEvent(kind, service_of({"metadata": {"name": name, "namespace": "a"}, "spec": spec}))


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(outbox, "JOIN_S", 0.01)


@pytest.fixture
def client() -> Watched:
    return Watched()


def names(batch: dict[str, Any]) -> list[str]:
    return [row["name"] for row in batch["upserted"]]


async def test_streams_share_a_watch_and_the_first_batch_is_everything(client):
    """A page that comes later gets the same list, without another watch."""
    feeds = Feeds(client)
    with feeds.follow(["a"]) as one:
        for change in (an_event("x"), an_event("y"), None):
            client.changes.put_nowait(change)
        first = await one.batch()
        assert (names(first), first["reset"], first["synced"]) == (["x", "y"], True, True)
        with feeds.follow(["a"]) as two:
            assert names(await two.batch()) == ["x", "y"]
            client.changes.put_nowait(an_event("y", "DELETED"))
            for box in (one, two):
                assert (await box.batch())["deleted"] == [{"namespace": "a", "name": "y"}]
        assert client.watches == 1
    await feeds.aclose()


async def test_a_slow_page_gets_the_last_state_alone(client):
    """However many changes came meanwhile."""
    feeds = Feeds(client)
    with feeds.follow(["a"]) as one:
        client.changes.put_nowait(None)
        await one.batch()
        for replicas in range(200):
            client.changes.put_nowait(an_event("x", "MODIFIED", replicas))
        await wait_until_async(client.changes.empty)
        batch = await one.batch()
        assert [row["replicas"] for row in batch["upserted"]] == [199]


async def test_the_last_stream_ends_the_watch_and_the_next_begins_another(client):
    feeds = Feeds(client)
    for watches in (1, 2):
        with feeds.follow(["a"]) as one:
            client.changes.put_nowait(None)
            await one.batch()
            assert client.watches == watches


@pytest.mark.parametrize("error", [ForbiddenError("no"), RuntimeError("a fault of ours")])
async def test_what_ends_a_watch_ends_all_its_streams(client, error):
    """A refusal by its sentence; a fault of ours too, and not by silence."""
    feeds = Feeds(client)
    with feeds.follow(["a"]) as one, feeds.follow(["a"]) as two:
        client.changes.put_nowait(error)
        for box in (one, two):
            with pytest.raises(ClientError):
                await asyncio.wait_for(box.batch(), HANG_S)


async def test_several_namespaces_are_one_list_once_all_are_whole(client):
    """Of a user who may not list all namespaces at once."""
    feeds = Feeds(client)
    with feeds.follow(["a", "b"]) as one:
        client.queues["a"].put_nowait(an_event("x"))
        client.queues["a"].put_nowait(None)
        waiting = asyncio.ensure_future(one.batch())
        await wait_until_async(client.queues["a"].empty)
        assert not waiting.done()
        client.queues["b"].put_nowait(None)
        assert names(await asyncio.wait_for(waiting, HANG_S)) == ["x"]
    assert client.watches == 2


async def many_turns() -> None:
    """Let every task go on until it waits for another one."""
    for _ in range(100):
        await asyncio.sleep(0)


class Written:
    """A log that counts how much of it was read."""

    def __init__(self, number: int, text: str = "x") -> None:
        self._number, self._text, self.read = number, text, 0

    async def lines(self) -> AsyncIterator[LogLine]:
        for place in range(self._number):
            self.read += 1
            yield LogLine("pod", "server", f"{place} {self._text}")


@pytest.mark.parametrize("number", [0, 1, 500, 2000, 2500])
async def test_a_log_ends_for_a_page_that_reads_slowly(number):
    """Every line in its order, then the end; the log's reader has many turns between two reads of the page."""
    seen: list[str] = []
    stream = _lines(Written(number).lines())
    async with asyncio.timeout(HANG_S):
        async for name, data in stream:
            await many_turns()
            seen += [row["text"].split()[0] for row in data] if name == "LINES" else [name]
    assert seen == [*map(str, range(number)), "END"]


async def test_a_page_that_does_not_read_holds_a_bounded_part_of_a_log():
    """A gigabyte of the longest pieces, of which the first events were taken."""
    log = Written(1 << 16, "x" * PIECE_MAX)
    stream = _lines(log.lines())
    _, first = await anext(stream)
    await many_turns()
    assert log.read > len(first)
    taken = sum(len(row["text"]) for row in first)
    assert log.read * PIECE_MAX - taken <= HELD_MAX + 2 * PIECE_MAX
    await stream.aclose()


async def test_a_stream_ends_with_its_session():
    """A watch of the API server outlives the token that began it; the stream does not."""

    async def silent():
        yield "ROWS", {}
        await asyncio.Event().wait()

    sent = [part async for part in _bytes(silent(), int(time.time()) + 1)]
    assert sent[:2] == [COMMENT, encoded(("ROWS", {}))]
    assert b"event: ERROR" in sent[-1]
    assert b'"reason":"SignIn"' in sent[-1]
