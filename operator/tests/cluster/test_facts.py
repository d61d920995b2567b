"""Asking pods: those that answer are heard, the others hold up nothing."""

from __future__ import annotations

import gzip
import json

import httpx2
import pytest
from windlass_operator.cluster import facts
from windlass_operator.records.base import parse
from windlass_operator.records.pods import Pod


def a_pod(name, address="10.0.0.1", phase="Running"):
    return parse(Pod, {"metadata": {"name": name}, "status": {"phase": phase, "podIP": address}})


GOOD = {"version": 1, "phase": "engine", "phases": [], "license": {"state": "granted"}}


class Sent(httpx2.AsyncByteStream):
    """Bytes as they come over the wire."""

    def __init__(self, body):
        self.body = body

    async def __aiter__(self):
        yield self.body


async def ask(answer, *pods):
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        return await facts.pod_facts(http, pods)


async def test_a_pod_is_asked_on_its_facts_port():
    asked = []

    def answer(request):
        asked.append(str(request.url))
        return httpx2.Response(200, json=GOOD)

    found = await ask(answer, a_pod("a"), a_pod("b", "fd00::1"), a_pod("pending", phase="Pending"), a_pod("c", ""))
    assert [one.pod for one in found] == ["a", "b"]
    assert sorted(asked) == ["http://10.0.0.1:8502/windlass/facts", "http://[fd00::1]:8502/windlass/facts"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: httpx2.Response(404),
        lambda _: httpx2.Response(200, text="<html>"),
        lambda _: httpx2.Response(200, content=b" " * 100_000 + json.dumps(GOOD).encode()),
        lambda _: httpx2.Response(302, headers={"Location": "http://elsewhere/"}),
    ],
    ids=["missing", "not JSON", "too long", "leads elsewhere"],
)
async def test_a_wrong_answer_is_none(answer):
    assert await ask(answer, a_pod("a")) == ()


async def test_an_answer_without_end_is_left_after_its_bound():
    sent = []

    async def endless():
        while True:
            sent.append(1)
            yield b" " * 16_384

    assert await ask(lambda _: httpx2.Response(200, content=endless()), a_pod("a")) == ()
    assert len(sent) == facts.ANSWER_MAX // 16_384 + 1


async def test_a_packed_answer_is_not_unfolded():
    packed = gzip.compress(b" " * 10**7 + json.dumps(GOOD).encode())
    headers = {"Content-Encoding": "gzip"}
    assert await ask(lambda _: httpx2.Response(200, headers=headers, stream=Sent(packed)), a_pod("a")) == ()


async def test_a_pod_that_does_not_listen_is_none():
    def refuse(request):
        raise httpx2.ConnectError("refused", request=request)

    assert await ask(refuse, a_pod("a")) == ()
