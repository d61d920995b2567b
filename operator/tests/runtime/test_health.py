"""Readiness: every dead watch and an old queue are named; the answers come from a real port."""

from __future__ import annotations

import httpx2
import pytest
from windlass_operator.runtime.health import QUEUE_OLD_S, Health, judge, serve


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
        ("/readyz", Health({}, 0.0), 200, "ok\n"),
        ("/readyz?verbose", Health({"Pod": "dead"}, 0.0), 503, "watch of Pod: dead\n"),
    ],
)
async def test_the_port_answers(path, health, code, text, unused_tcp_port):
    async with serve(unused_tcp_port, lambda: health), httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.get(f"http://127.0.0.1:{unused_tcp_port}{path}")
    assert (answer.status_code, answer.text) == (code, text)


async def test_the_metrics_are_beside(unused_tcp_port):
    async with serve(unused_tcp_port, lambda: Health({}, 0.0)), httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.get(f"http://127.0.0.1:{unused_tcp_port}/metrics")
    assert "# TYPE windlass_queue_depth gauge" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


async def test_port_0_serves_nothing():
    async with serve(0, lambda: Health({}, 0.0)):
        pass
