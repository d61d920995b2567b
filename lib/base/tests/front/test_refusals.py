"""Refusals in the middle of other answers: those go first, and nothing that a peer sends writes a traceback."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import pytest
from windlass_base.front.peers import FrontLimits

pytestmark = pytest.mark.simulated_time
AT_ONCE = 4
LIMITS = FrontLimits(requests_per_s=0.001, requests_at_once=AT_ONCE, head_bytes=1024, body_bytes=1024)
"""A connection takes one, which counts for its first request."""
PLAIN = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HELD = b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n"
LONG = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2000 + b"\r\n\r\n"
LARGE = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n"
BROKEN = b"no HTTP\r\n\r\n"


@pytest.fixture(autouse=True)
def errors(caplog):
    """Records of the test that have a traceback; there is none at its end."""
    caplog.set_level(logging.WARNING)
    yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def statuses(received: bytes) -> list[int]:
    """Of the answers, in their order."""
    return [int(answer[:3]) for answer in received.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("first", [PLAIN, HELD], ids=["answered at once", "held"])
async def test_requests_beyond_the_rate_are_refused_behind_the_answers(serve, first):
    """Once, however many come, and the refusal is the last that the connection says."""
    served = serve(LIMITS)
    streams = await served.open()
    streams[1].write(first + PLAIN * 50)
    served.let.set()
    received = await served.rest_of(streams)
    assert statuses(received) == [200, 200, 200, 200, 429]
    assert json.loads(received.rpartition(b"\r\n\r\n")[2])["reason"] == "TooManyRequests"
    assert served.front.peers.turned_away["rate"] == 1


async def test_an_address_that_opens_a_connection_for_each_request_is_answered_at_the_rate(serve):
    """And not never, where it asks ten times as often: a probe behind the same address still gets its answer."""
    rate, at_once, asked = 10, 5, 200
    served = serve(FrontLimits(requests_per_s=rate, requests_at_once=at_once))
    answered = 0
    for _ in range(asked):
        streams = await served.open()
        with suppress(ConnectionError):
            streams[1].write(PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answered += (await served.rest_of(streams)).startswith(b"HTTP/1.1 200 ")
        await asyncio.sleep(1 / rate / 10)  # clock: simulated
    assert at_once + asked / 10 - 2 <= answered <= at_once + asked / 10 + 2


@pytest.mark.parametrize(
    ("refused", "status"), [(LONG, 431), (LARGE, 413), (BROKEN, 400)], ids=["long", "large", "broken"]
)
async def test_a_refusal_waits_for_the_answer_under_way(serve, refused, status):
    """A client takes the first answer for that of its first request."""
    served = serve(LIMITS)
    streams = await served.open()
    streams[1].write(HELD + refused)
    served.let.set()
    assert statuses(await served.rest_of(streams)) == [200, status]


async def test_a_refusal_waits_no_longer_than_an_answer_may_take(serve):
    """The application never answers here."""
    served = serve(LIMITS)
    streams = await served.open()
    streams[1].write(HELD + BROKEN)
    assert await served.rest_of(streams) == b""
    assert served.front.peers.turned_away["time"] == 1


async def test_what_still_comes_behind_a_refusal_is_bounded(serve):
    """A peer that goes on sending is cut, its answer with it."""
    served = serve(LIMITS)
    streams = await served.open()
    streams[1].write(HELD + BROKEN)
    for _ in range(40):
        streams[1].write(b"x" * 65536)
    assert await served.rest_of(streams) == b""


async def test_a_broken_body_ends_the_connection(serve):
    """Its request waits for nothing more."""
    served = serve(LIMITS)
    streams = await served.open()
    streams[1].write(b"POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n")
    assert await served.rest_of(streams) == b""


@pytest.mark.parametrize("target", ["/costly", "/costly?a=b", "/c%6fstly", "http://a/costly"])
async def test_a_costly_request_takes_more_of_the_rate(serve, target):
    """However its path is written: it takes three of four requests' worth, the connection's included."""
    served = serve(LIMITS)
    streams = await served.open()
    streams[1].write(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode() + PLAIN * 2)
    assert statuses(await served.rest_of(streams)) == [200, 200, 429]
