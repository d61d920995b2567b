"""Ends: of a client that waits, of a process, of the owner, of the server."""

import asyncio
import stat
from pathlib import Path

import pytest
from windlass.errors import UsageError
from windlass.front.key_document import Limits
from windlass.front.limits.member import PendingRequest
from windlass.front.settings import ApiSettings
from windlass_testbed.waiting import HANG_S, wait_until_async

from .conftest import key_file

ONE_PLACE = ApiSettings(served_names=("demo",), concurrency=1, queue=1, processes=2)
ONE_AT_A_TIME = {"name": "one", "key": "sk-one-key", "concurrency": 1}


async def test_a_process_that_dies_gives_back_what_it_held(serve, tmp_path) -> None:
    """Its place and its slot of the key are free at once."""
    server = await serve(key_file(tmp_path, ONE_AT_A_TIME))
    one, other = server.processes
    one.engine.may_answer.clear()
    held = one.begin("sk-one-key")
    await wait_until_async(lambda: one.engine.running == 1)
    one.guard.state.link.close()
    await wait_until_async(lambda: server.owner.gate.running == 0)
    assert (await other.chat("sk-one-key")).status_code == 200
    held.cancel()


async def test_a_process_without_owner_ends(serve) -> None:
    """It would serve without places and limits; vLLM's parent then ends all, and the pod starts anew."""
    server = await serve()
    for connection in tuple(server.owner._connections):
        connection.close()
    await wait_until_async(lambda: all(process.exits for process in server.processes))
    assert [process.exits for process in server.processes] == [[1], [1]]


async def test_a_question_that_cannot_be_answered_ends_its_process(serve, tmp_path, monkeypatch) -> None:
    """Its request would wait for ever."""
    server = await serve(key_file(tmp_path, ONE_AT_A_TIME))

    async def broken(_: object) -> None:
        raise RuntimeError("no verdict")

    monkeypatch.setattr(server.owner.limits, "enter", broken)
    asked = server.processes[0].begin("sk-one-key")
    await wait_until_async(lambda: server.processes[0].exits == [1])
    asked.cancel()
    assert server.processes[1].exits == []


async def test_a_client_that_leaves_the_queue_leaves_it_everywhere(serve) -> None:
    """The next one gets its turn."""
    server = await serve(ONE_PLACE)
    one, other = server.processes
    one.engine.may_answer.clear()
    first = one.begin()
    await wait_until_async(lambda: one.engine.running == 1)
    second = other.begin()
    await wait_until_async(lambda: server.owner.gate.waiting == 1)
    second.cancel()
    await wait_until_async(lambda: server.owner.gate.waiting == 0)
    one.engine.may_answer.set()
    assert (await first).status_code == 200
    assert (await other.chat()).status_code == 200


async def test_a_request_given_up_before_the_verdict_holds_no_slot(serve) -> None:
    """The owner may have let it begin already."""
    server = await serve()
    limits = server.processes[0].guard.state.replicas
    wish = PendingRequest("key", Limits(concurrency=1))
    asked = asyncio.create_task(limits.enter(wish))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    async with asyncio.timeout(HANG_S):
        while not (verdict := await limits.enter(wish)).may_begin:  # noqa: ASYNC110 - asked anew
            await asyncio.sleep(0)
    limits.end(wish, verdict.second, 0)


async def draining(server):
    """The drain has begun while one request runs: that, and the drain."""
    one, _ = server.processes
    one.engine.may_answer.clear()
    running = one.begin()
    await wait_until_async(lambda: one.engine.running == 1)
    drain = asyncio.create_task(server.owner.drain(60))
    await wait_until_async(lambda: server.owner.gate.is_stopping)
    return running, drain


async def test_the_drain_ends_with_the_last_answer(serve) -> None:
    """Who runs goes on, who comes is refused, and nothing waits for the whole time."""
    server = await serve()
    running, drain = await draining(server)
    one, other = server.processes
    assert (await other.chat()).status_code == 503
    assert not drain.done()
    one.engine.may_answer.set()
    assert (await running).status_code == 200
    async with asyncio.timeout(HANG_S):
        assert await drain


async def test_a_drain_knows_of_answers_that_were_lost(serve) -> None:
    """A process that goes gives its places back, and its answers have not ended."""
    server = await serve()
    running, drain = await draining(server)
    server.processes[0].guard.state.link.close()
    async with asyncio.timeout(HANG_S):
        assert not await drain
    running.cancel()


async def test_the_drain_ends_with_its_time(serve) -> None:
    """An answer without end keeps no pod."""
    server = await serve()
    one, _ = server.processes
    one.engine.may_answer.clear()
    running = one.begin()
    await wait_until_async(lambda: one.engine.running == 1)
    async with asyncio.timeout(HANG_S):
        assert not await server.owner.drain(0.1)
    running.cancel()


async def test_nobody_else_may_connect(serve) -> None:
    """The socket's folder is the user's alone."""
    server = await serve()
    assert stat.S_IMODE(Path(server.owner.path).parent.stat().st_mode) == 0o700


async def test_late_numbers_do_not_hold_the_page_up(serve) -> None:
    """Of a process that tells nothing in time, the numbers before count."""
    server = await serve()
    one, other = server.processes
    await other.chat("wrong-but-open")
    await one.page("/windlass/metrics")
    other.guard.state.link._does["count"] = lambda: None
    text = await one.page("/windlass/metrics")
    assert "windlass_usage_requests_total" in text
    assert 'model="demo"} 1' in text


async def test_a_taken_port_of_the_replicas_is_one_sentence(serve) -> None:
    """Another server of this machine has it."""
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = str(taken.sockets[0].getsockname()[1])
    peers = {"WINDLASS_PEERS": f"127.0.0.1:{port}", "WINDLASS_PEERS_PORT": port, "WINDLASS_PEERS_HOST": "127.0.0.1"}
    async with taken:
        with pytest.raises(UsageError, match=r"replicas cannot be opened: .*; set WINDLASS_PEERS_PORT"):
            await serve(**peers)
