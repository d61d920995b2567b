"""Replicas over real connections on loopback: they find each other, decide together, and go on when one is gone."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from windlass.errors import UsageError
from windlass.front.key_document import Limits
from windlass.front.limits.link import Hello, handshake, key_of
from windlass.front.limits.member import STATE, Identity, PendingRequest
from windlass.front.limits.replicas import Replicas
from windlass.front.limits.settings import replicas as from_environment
from windlass_testbed.ports import free_ports
from windlass_testbed.simulated_time import elapse
from windlass_testbed.waiting import wait_until_async

pytestmark = pytest.mark.simulated_time

HOST = "127.0.0.1"
KEY = key_of([b"a", b"b"])


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


@pytest.mark.parametrize("load", ["even", "one"])
async def test_three_replicas_hold_one_limit(load: str) -> None:
    """Exactly, at once, with the load on all of them or on the youngest."""
    async with cluster([(KEY,)] * 3) as three:
        await wait_until_async(lambda: all(one.connected == 2 for one in three))
        wish = PendingRequest("a", Limits(requests=20))
        asked = three if load == "even" else [three[2]] * 3
        verdicts = await asyncio.gather(*(asked[number % 3].enter(wish) for number in range(60)))
        assert sum(verdict.may_begin for verdict in verdicts) == 20
        assert sum(one.alone for one in three) == 0


async def test_the_next_oldest_goes_on_with_the_count() -> None:
    """When the one that decides is gone, nothing that it granted is granted again."""
    async with cluster([(KEY,)] * 3) as three:
        await wait_until_async(lambda: all(one.connected == 2 for one in three))
        wish = PendingRequest("a", Limits(requests=20))
        assert sum([(await three[number % 3].enter(wish)).may_begin for number in range(12)]) == 12
        await elapse(1)
        await three[0].stop()
        verdicts = [await three[1 + number % 2].enter(wish) for number in range(20)]
        assert sum(verdict.may_begin for verdict in verdicts) == 8


async def test_running_requests_of_a_lost_replica_end() -> None:
    """Their places are free for the others."""
    async with cluster([(KEY,)] * 2) as two:
        await wait_until_async(lambda: all(one.connected == 1 for one in two))
        wish = PendingRequest("a", Limits(concurrency=2))
        assert [(await two[1].enter(wish)).may_begin for _ in range(3)] == [True, True, False]
        assert not (await two[0].enter(wish)).may_begin
        await two[1].stop()
        await wait_until_async(lambda: two[0].connected == 0)
        assert (await two[0].enter(wish)).may_begin


async def test_who_holds_other_keys_is_nobody() -> None:
    """A stranger on the port neither asks nor tells; a replica with the keys of before does."""
    old = key_of([b"a"])
    async with cluster([(KEY, old), (old,), (b"stranger",)]) as (one, two, stranger):
        await wait_until_async(lambda: one.connected == 1 and two.connected == 1)
        await elapse(120)
        assert (one.connected, two.connected, stranger.connected) == (1, 1, 0)


async def test_alone_a_replica_takes_its_share() -> None:
    """Of the replicas that there are, when the one that decides cannot be asked."""
    async with cluster([(KEY,)] * 2) as (keeper, other):
        await wait_until_async(lambda: keeper.connected == other.connected == 1)
        keeper.member.receive = lambda *_: None  # it reads and never answers
        verdicts = await asyncio.gather(*(other.enter(PendingRequest("a", Limits(requests=10))) for _ in range(8)))
        assert (sum(verdict.may_begin for verdict in verdicts), other.alone) == (5, 8)


async def test_who_cannot_be_reached_may_grant_the_rest() -> None:
    """An address where somebody listens and says nothing is no dead replica: the oldest of two keeps to its half."""
    async with asyncio.timeout(600):
        held: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: held.append(writer), HOST, 0)
        there = (HOST, silent.sockets[0].getsockname()[1])
        one = Replicas(((HOST, port := free_ports(1)[0]), there), port, lambda: (KEY,), HOST)
        await one.start()
        await wait_until_async(lambda: one.member.known == 2)
        verdicts = [await one.enter(PendingRequest("a", Limits(requests=10))) for _ in range(10)]
        assert sum(verdict.may_begin for verdict in verdicts) == 5
        silent.close()
        for writer in held:
            writer.transport.abort()
        await wait_until_async(lambda: one.member.known == 1)  # refused: nobody is there
        assert (await one.enter(PendingRequest("a", Limits(requests=10)))).may_begin
        await one.stop()


@pytest.mark.parametrize(
    "line",
    [b"[" * 50_000, b'{"id":"x","born":1%s,"port":1,"nonce":""}' % (b"0" * 400), b"[]", b"x" * 100_000, b"\xff", b"7"],
    ids=["deep", "huge number", "list", "long", "no text", "number"],
)
async def test_a_wrong_first_line_ends_its_connection(line: bytes, caplog) -> None:
    """Without a word in the log, and the replica goes on."""
    async with cluster([(KEY,)]) as (one,):
        reader, writer = await asyncio.open_connection(HOST, one._port)
        writer.write(line + b"\n")
        async with asyncio.timeout(600):
            heard = await reader.readline()
            assert set(json.loads(heard)) == {"id", "born", "port", "nonce"}
            assert await _rest(reader) == b""
        writer.close()
        assert (await one.enter(PendingRequest("a", Limits(requests=1)))).may_begin
    assert not caplog.records


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_a_stranger_gets_no_proof() -> None:
    """Who dials shows the keys first, so that weak ones cannot be guessed from what the port says."""
    async with cluster([(KEY,)]) as (one,):
        reader, writer = await asyncio.open_connection(HOST, one._port)
        writer.write(b'{"id":"x","born":1,"port":1,"nonce":"00"}\n["00"]\n')
        await reader.readline()
        async with asyncio.timeout(600):
            assert await _rest(reader) == b""
        writer.close()


async def test_a_thousand_keys_fit_into_the_lines() -> None:
    """All their running requests are told to a replica that comes."""
    async with cluster([(KEY,)]) as (one,):
        wishes = [PendingRequest(f"{number:063}", Limits(concurrency=1)) for number in range(1500)]
        for wish in wishes:
            await one.enter(wish)
        peer, ours = free_ports(1)[0], (HOST, one._port)
        other = Replicas((ours, (HOST, peer)), peer, lambda: (KEY,), HOST)
        await other.start()
        await wait_until_async(lambda: one.connected == other.connected == 1)
        await wait_until_async(lambda: len(other.member._running_there.get(one.member.identity.id, ())) == 1500)
        await other.stop()


async def test_a_replica_that_vanished_runs_nothing() -> None:
    """Its connection stays open and silent, as of a node without power."""
    async with cluster([(KEY,)]) as (one,):
        streams = await asyncio.open_connection(HOST, one._port)
        hello = Hello(Identity(1e12, "gone"), free_ports(1)[0])
        dialled = await handshake(streams, hello, (KEY,), dialled=True)
        dialled.send({"is": STATE, "rows": [], "running": {"a": 2}})
        wish = PendingRequest("a", Limits(concurrency=2))
        await wait_until_async(lambda: one.member._running_there)
        assert not (await one.enter(wish)).may_begin
        await wait_until_async(lambda: not one.member._running_there)
        assert (await one.enter(wish)).may_begin
        dialled.close()


async def test_a_peer_that_fails_in_whatever_way_is_dialled_again(caplog: pytest.LogCaptureFixture) -> None:
    """A defect on the way to one replica ends neither the discovery nor the first request."""
    port, wrong = free_ports(1)[0], [True]

    def keys() -> tuple[bytes, ...]:
        if wrong[0]:
            raise OverflowError("date value out of range")
        return (KEY,)

    async with cluster([(KEY,)]) as (peer,):
        one = Replicas(((HOST, peer._port), ("a" * 64, 1)), port, keys, HOST)
        await one.start()
        assert (await one.enter(PendingRequest("a", Limits(requests=1)))).may_begin
        assert (one._found.is_set(), one._addresses) == (True, {})
        assert "cannot be reached" in caplog.text
        wrong[0] = False
        await wait_until_async(lambda: one.connected == 1)
        await one.stop()


def test_without_peers_a_server_is_alone() -> None:
    """And a wrong word is refused with what to write."""
    assert from_environment({}, None).member.is_keeper
    with pytest.raises(UsageError, match="write NAME:PORT"):
        from_environment({"WINDLASS_PEERS": "demo-peers"}, None)
