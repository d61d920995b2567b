"""Readiness: every dead watch and an old queue are named; the answers come from real ports, whoever holds them open."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx2
import pytest
from windlass_base.front.beside import SMALL
from windlass_operator.runtime import health as module
from windlass_operator.runtime import metrics
from windlass_operator.runtime.health import METRICS_S, QUEUE_OLD_S, Health, judge, serve
from windlass_testbed.ports import free_ports
from windlass_testbed.waiting import HANG_S

WELL = Health({}, 0.0)


@pytest.fixture
def ports() -> tuple[int, int]:
    """Of /healthz, and of /readyz and /metrics."""
    first, second = free_ports(2)
    return first, second


async def get(port: int, path: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=HANG_S) as http:
        return await http.get(f"http://127.0.0.1:{port}{path}")


def test_all_well_is_ready():
    assert judge(Health({}, QUEUE_OLD_S)) == []


def test_what_is_wrong_is_named():
    assert judge(Health({"Pod": "TimeoutError", "Job": "not listed yet"}, QUEUE_OLD_S + 1)) == [
        "watch of Job: not listed yet",
        "watch of Pod: TimeoutError",
        "queue: an LLMService has waited 31 s for its reconcile",
    ]


@pytest.mark.parametrize(
    ("path", "health", "code", "text"),
    [
        ("/readyz", WELL, 200, "ok\n"),
        ("/readyz?verbose", Health({"Pod": "dead"}, 0.0), 503, "watch of Pod: dead\n"),
        ("/healthz", WELL, 404, "here are /readyz, /metrics\n"),
    ],
)
async def test_the_port_answers(path, health, code, text, ports):
    async with serve(*ports, lambda: health):
        answer = await get(ports[1], path)
    assert (answer.status_code, answer.text) == (code, text)


async def test_the_kubelet_hears_that_the_loop_turns(ports):
    """Also while the operator is not ready: a restart mends no watch."""
    async with serve(*ports, lambda: Health({"Pod": "dead"}, 0.0)):
        assert (await get(ports[0], "/healthz")).status_code == 200


async def test_the_metrics_are_beside(ports):
    async with serve(*ports, lambda: WELL):
        answer = await get(ports[1], "/metrics")
    assert f"# TYPE {metrics.QUEUE_OLDEST_SECONDS._name} gauge" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


async def test_metrics_are_written_out_once_a_second(ports, monkeypatch):
    """However often they are asked for."""
    made: list[None] = []
    monkeypatch.setattr(module, "generate_latest", lambda: made.append(None) or b"x 1\n")
    now_s = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    metrics = module.Metrics()
    assert [metrics.answer().text for _ in range(3)] == ["x 1\n"] * 3
    assert len(made) == 1
    now_s += METRICS_S
    metrics.answer()
    assert len(made) == 2


async def test_a_taken_port_is_an_error(ports):
    async with serve(*ports, lambda: WELL):
        with pytest.raises(OSError, match="in use"):
            async with serve(*ports, lambda: WELL):
                pass


async def test_port_0_serves_nothing():
    async with serve(0, 0, lambda: WELL):
        pass


async def test_whoever_holds_connections_open_keeps_no_probe_away(ports):
    """One address may have a few, and when all are taken the one that waits longest goes."""
    async with serve(*ports, lambda: WELL), AsyncExitStack() as stack:
        for number in range(2 * SMALL.connections):
            host = f"127.0.1.{number % 200 + 1}"
            _, half = await asyncio.open_connection("127.0.0.1", ports[1], local_addr=(host, 0))
            stack.callback(half.close)
            half.write(b"GET /metrics HTTP/1.1\r\nx: ")
        for _ in range(3 * SMALL.connections_per_peer):
            _, half = await asyncio.open_connection("127.0.0.1", ports[1], local_addr=("127.0.2.1", 0))
            stack.callback(half.close)
        assert [(await get(ports[1], "/readyz")).status_code for _ in range(5)] == [200] * 5
