"""Replicas over real connections on loopback: they find each other, decide together, and go on when one is gone."""

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from windlass.api.key_document import Limits
from windlass.errors import UsageError
from windlass.limits.link import key_of
from windlass.limits.member import Wish
from windlass.limits.replicas import Replicas
from windlass.limits.settings import replicas as from_environment

HOST = "127.0.0.1"
KEY = key_of([b"a", b"b"])


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@asynccontextmanager
async def cluster(keys: list[tuple[bytes, ...]]):
    ports = free_ports(len(keys))
    peers = tuple((HOST, port) for port in ports)
    async with AsyncExitStack() as stack:
        found = []
        for port, own in zip(ports, keys, strict=True):
            one = Replicas(peers, port, lambda own=own: own, HOST)
            await one.start()
            stack.push_async_callback(one.stop)
            found.append(one)
        yield found


async def until(true, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("load", ["even", "one"])
async def test_three_replicas_hold_one_limit(load: str) -> None:
    """Exactly, at once, with the load on all of them or on the youngest."""
    async with cluster([(KEY,)] * 3) as three:
        await until(lambda: all(one.connected == 2 for one in three))
        wish = Wish("a", Limits(requests=20))
        asked = three if load == "even" else [three[2]] * 3
        verdicts = await asyncio.gather(*(asked[number % 3].enter(wish) for number in range(60)))
        assert sum(verdict.may_begin for verdict in verdicts) == 20
        assert sum(one.alone for one in three) == 0


async def test_the_next_oldest_goes_on_with_the_count() -> None:
    """When the one that decides is gone, nothing that it granted is granted again."""
    async with cluster([(KEY,)] * 3) as three:
        await until(lambda: all(one.connected == 2 for one in three))
        wish = Wish("a", Limits(requests=20))
        assert sum([(await three[number % 3].enter(wish)).may_begin for number in range(12)]) == 12
        await asyncio.sleep(0.05)
        await three[0].stop()
        verdicts = [await three[1 + number % 2].enter(wish) for number in range(20)]
        assert sum(verdict.may_begin for verdict in verdicts) == 8


async def test_running_requests_of_a_lost_replica_end() -> None:
    """Their places are free for the others."""
    async with cluster([(KEY,)] * 2) as two:
        await until(lambda: all(one.connected == 1 for one in two))
        wish = Wish("a", Limits(concurrency=2))
        assert [(await two[1].enter(wish)).may_begin for _ in range(3)] == [True, True, False]
        assert not (await two[0].enter(wish)).may_begin
        await two[1].stop()
        await until(lambda: two[0].connected == 0)
        assert (await two[0].enter(wish)).may_begin


async def test_who_holds_other_keys_is_nobody() -> None:
    """A stranger on the port neither asks nor tells; a replica with the keys of before does."""
    old = key_of([b"a"])
    async with cluster([(KEY, old), (old,), (b"stranger",)]) as (one, two, stranger):
        await until(lambda: one.connected == 1 and two.connected == 1)
        await asyncio.sleep(0.3)
        assert (one.connected, two.connected, stranger.connected) == (1, 1, 0)


async def test_alone_a_replica_takes_its_share() -> None:
    """Of the replicas that there are, when the one that decides cannot be asked."""
    async with cluster([(KEY,)] * 2) as (keeper, other):
        await until(lambda: keeper.connected == other.connected == 1)
        keeper.member.receive = lambda *_: None  # it reads and never answers
        verdicts = await asyncio.gather(*(other.enter(Wish("a", Limits(requests=10))) for _ in range(8)))
        assert (sum(verdict.may_begin for verdict in verdicts), other.alone) == (5, 8)


def test_without_peers_a_server_is_alone() -> None:
    """And a wrong word is refused with what to write."""
    assert from_environment({}, None).member.is_keeper
    with pytest.raises(UsageError, match="write NAME:PORT"):
        from_environment({"WINDLASS_PEERS": "demo-peers"}, None)
