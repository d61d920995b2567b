"""What API processes of one server share, a test for each row of the table in ADR 93."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families
from windlass.front.outbox import UNREAD_BYTES_MAX
from windlass.front.settings import ApiSettings
from windlass.front.usage import hours
from windlass_testbed.simulated_time import elapse
from windlass_testbed.waiting import wait_until_async

from .conftest import START_KEY, key_file

ONE_PLACE = ApiSettings(served_names=("demo",), concurrency=1, queue=1, processes=2)
HEALTH = "/health"


def value(text: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples with such labels."""
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples if one.name == name]
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


async def test_places_are_counted_over_all_processes(serve) -> None:
    """The one place is taken in the first process; a request of the second waits until it is free."""
    server = await serve(ONE_PLACE)
    one, other = server.processes
    one.engine.may_answer.clear()
    first = one.begin()
    await wait_until_async(lambda: one.engine.running == 1)
    second = other.begin()
    await wait_until_async(lambda: server.owner.gate.waiting == 1)
    assert other.engine.running == 0
    one.engine.may_answer.set()
    assert [(await first).status_code, (await second).status_code] == [200, 200]
    await wait_until_async(lambda: server.owner.gate.running == 0)


async def test_the_queue_is_one(serve) -> None:
    """With one running and one waiting, the next is refused whatever process it reaches."""
    server = await serve(ONE_PLACE)
    one, other = server.processes
    one.engine.may_answer.clear()
    held = [one.begin()]
    await wait_until_async(lambda: one.engine.running == 1)
    held.append(one.begin())
    await wait_until_async(lambda: server.owner.gate.waiting == 1)
    answer = await other.chat()
    assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
    assert "1 running, 1 waiting" in answer.json()["error"]["message"]
    one.engine.may_answer.set()
    await asyncio.gather(*held)


async def test_a_keys_share_of_the_places_is_one(serve) -> None:
    """A key that holds all places but the kept one waits in the other process too; another key gets the kept one."""
    settings = ApiSettings(served_names=("demo",), concurrency=2, queue=4, processes=2)
    server = await serve(settings, keys="sk-a,sk-b")
    one, other = server.processes
    for process in server.processes:
        process.engine.may_answer.clear()
    held = [one.begin("sk-a")]
    await wait_until_async(lambda: one.engine.running == 1)
    held.append(other.begin("sk-a"))
    await wait_until_async(lambda: server.owner.gate.waiting == 1)
    held.append(other.begin("sk-b"))
    await wait_until_async(lambda: other.engine.running == 1)
    for process in server.processes:
        process.engine.may_answer.set()
    assert {200} == {answer.status_code for answer in await asyncio.gather(*held)}


async def test_limits_of_a_key_hold_over_all_processes(serve, tmp_path) -> None:
    """Two requests a minute are two, one in each process."""
    server = await serve(key_file(tmp_path, {"name": "few", "key": "sk-few-key", "requestsPerMinute": 2}))
    one, other = server.processes
    answers = [await process.chat("sk-few-key") for process in (one, other, one, other)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers[:2]] == ["1", "0"]


async def test_running_requests_of_a_key_are_counted_over_all_processes(serve, tmp_path) -> None:
    """One at a time: the second is refused in the other process, and may come when the first has ended."""
    server = await serve(key_file(tmp_path, {"name": "one", "key": "sk-one-key", "concurrency": 1}))
    one, other = server.processes
    one.engine.may_answer.clear()
    first = one.begin("sk-one-key")
    await wait_until_async(lambda: one.engine.running == 1)
    assert (await other.chat("sk-one-key")).status_code == 429
    one.engine.may_answer.set()
    await first
    assert (await other.chat("sk-one-key")).status_code == 200


def test_bytes_are_parts_of_one_bound() -> None:
    """All processes together hold no more bodies than the bound, and each has room for two of the largest."""
    for number in (1, 2, 3, 8, 32):
        settings = ApiSettings(processes=number)
        whole = max(settings.max_bodies_bytes, 4 * settings.max_body_bytes, 2 * number * settings.max_body_bytes)
        assert settings.bodies_bytes * number <= whole
        assert number == 1 or settings.bodies_bytes >= 2 * settings.max_body_bytes


async def test_unread_answers_are_parts_of_one_bound(serve) -> None:
    """Each process holds its part of the bytes that slow readers have not taken."""
    server = await serve()
    limits = [process.guard.state.stock.shares.limit_bytes for process in server.processes]
    assert limits == [UNREAD_BYTES_MAX // 2] * 2


async def test_usage_is_recorded_by_each_and_summed(serve, tmp_path) -> None:
    """Each process has a folder of its own; the page of metrics has the sum whatever process is asked."""
    server = await serve(WINDLASS_USAGE_DIR=str(tmp_path / "usage"))
    for process in server.processes:
        await process.chat()
    await server.processes[0].chat()
    pages = [await process.page("/windlass/metrics") for process in server.processes]
    assert [value(page, "windlass_usage_requests_total") for page in pages] == [3.0, 3.0]
    assert [value(page, "windlass_usage_prompt_tokens_total") for page in pages] == [9.0, 9.0]
    records = list(hours.records(tmp_path / "usage"))
    assert (len({row["writer"] for row in records}), sum(row["requests"] for row in records)) == (2, 3)


async def test_metrics_and_facts_are_sums(serve, tmp_path) -> None:
    """Refusals of both processes, and what runs in both, on the pages of each."""
    server = await serve(key_file(tmp_path, {"name": "a", "key": "sk-a-key-1", "requestsPerMinute": 2}))
    one, other = server.processes
    for process in server.processes:
        await process.chat("wrong")
        process.engine.may_answer.clear()
    held = [process.begin("sk-a-key-1") for process in server.processes]
    await wait_until_async(lambda: one.engine.running == other.engine.running == 1)
    await other.chat("sk-a-key-1")
    for process in server.processes:
        page = await process.page("/windlass/metrics")
        assert value(page, "windlass_api_requests_running") == 2
        assert value(page, "windlass_api_requests_refused_total", status="401") == 2
        assert value(page, "windlass_limits_refused_total", key="a", limit="requests") == 1
        assert value(page, "windlass_api_keys_wrong") == 0
    facts = await one.client.get("/windlass/facts", headers={"Authorization": "Bearer sk-a-key-1"})
    assert (facts.json()["running"], facts.json()["processes"]) == (2, 2)
    for process in server.processes:
        process.engine.may_answer.set()
    await asyncio.gather(*held)


async def test_the_end_of_the_start_reaches_all(serve) -> None:
    """Also a process that joins later."""
    server = await serve(WINDLASS_START_KEY=START_KEY)
    one, other = server.processes
    assert [(await process.client.get(HEALTH)).status_code for process in server.processes] == [503, 503]
    answer = await one.client.post("/windlass/started", headers={"x-windlass-start": START_KEY})
    assert answer.status_code == 200
    late = await server.start()
    for process in (one, other, late):
        await wait_until_async(lambda guard=process.guard: guard.probes.start.is_over)
        assert (await process.client.get(HEALTH)).status_code == 200


async def test_an_engine_that_hangs_ends_the_server_by_any_process(serve) -> None:
    """What one process finds, probes hear from each; it is forgotten when steps end again."""
    server = await serve()
    one, other = server.processes
    one.guard.probes.watch.tell("the engine holds 1 requests")
    await wait_until_async(lambda: other.guard.state.link.stalled != "")
    answer = await other.client.get(HEALTH)
    assert (answer.status_code, answer.headers["x-windlass-stalled"]) == (503, "1")
    one.guard.probes.watch.tell("")
    await wait_until_async(lambda: other.guard.state.link.stalled == "")
    assert (await other.client.get(HEALTH)).status_code == 200


@pytest.mark.simulated_time
async def test_the_others_report_a_process_that_hangs(serve) -> None:
    """It says nothing for a minute; the report of another one shows it."""
    server = await serve()
    one, _ = server.processes
    await elapse(0.5)  # each has made its first report
    for connection in server.owner._connections:
        connection.heard_at -= 61
    one.guard.state.link.send("steps", 1)
    await wait_until_async(lambda: one.guard.state.link.stalled != "")
    assert "1 of 2 API processes have said nothing for 60 s" in one.guard.state.link.stalled


async def test_stopping_is_for_all(serve) -> None:
    """A process that is told to stop lets nothing new begin in any."""
    server = await serve()
    one, other = server.processes
    one.guard.state.gate.stop()
    await wait_until_async(lambda: server.owner.gate.is_stopping)
    answer = await other.chat()
    assert (
        answer.status_code,
        answer.json()["error"]["message"],
    ) == (503, "this server is shutting down; ask again, another one answers")
