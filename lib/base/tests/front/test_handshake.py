"""Connections that do not finish their TLS handshake count and end as all others do."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from windlass_base.front.connection import SWEEP_S
from windlass_base.front.peers import FrontLimits
from windlass_testbed.simulated_time import passed_s
from windlass_testbed.waiting import wait_until_async

pytestmark = pytest.mark.simulated_time
LIMITS = FrontLimits(connections=6, connections_per_peer=4, requests_per_s=0.0, head_s=5.0)
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a client's first message, which announces 512."""
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def test_a_request_behind_a_handshake_is_answered(serve, tls, trusting):
    """Requests behind a handshake say that they came encrypted."""
    served = serve(LIMITS, tls)
    streams = await served.open(trusting)
    streams[1].write(REQUEST)
    assert (await served.rest_of(streams)).endswith(b"ok https\n")


@pytest.mark.parametrize("sent", [b"", HELLO], ids=["nothing", "half a hello"])
async def test_a_handshake_that_does_not_end_is_cut(serve, tls, sent):
    """At the time that a header may take."""
    served = serve(LIMITS, tls)
    streams = await served.open()
    begun_s = passed_s()
    streams[1].write(sent)
    assert await served.rest_of(streams) == b""
    assert LIMITS.head_s - SWEEP_S <= passed_s() - begun_s <= LIMITS.head_s + 3 * SWEEP_S  # clock: simulated


async def test_a_header_after_the_handshake_has_no_time_of_its_own(serve, tls, trusting):
    """One deadline from the start of the connection."""
    served = serve(LIMITS, tls)
    streams = await served.open(trusting)
    begun_s = passed_s()
    assert await served.rest_of(streams) == b""
    assert passed_s() - begun_s <= LIMITS.head_s + 3 * SWEEP_S  # clock: simulated


async def test_a_peer_has_so_many_handshakes(serve, tls):
    """The fifth is closed before the others are late."""
    served = serve(LIMITS, tls)
    for _ in range(LIMITS.connections_per_peer):
        await served.open()
    begun_s = passed_s()
    assert await served.rest_of(await served.open()) == b""
    assert passed_s() - begun_s < LIMITS.head_s - 1  # clock: simulated
    assert served.front.peers.turned_away["peer"] == 1


async def test_the_oldest_handshake_makes_room(serve, tls, trusting):
    """A client that comes when all connections are taken is answered."""
    served = serve(replace(LIMITS, connections_per_peer=100), tls)
    held = [await served.open() for _ in range(LIMITS.connections)]
    streams = await served.open(trusting)
    streams[1].write(REQUEST)
    assert (await served.rest_of(streams)).endswith(b"ok https\n")
    assert await served.rest_of(held[0]) == b""
    assert not held[1][0].at_eof()


async def test_bytes_that_are_no_handshake_end_it_without_a_word(serve, tls, caplog):
    """Neither the application nor the log sees them."""
    caplog.set_level(logging.WARNING)
    served = serve(LIMITS, tls)
    streams = await served.open()
    streams[1].write(REQUEST)
    assert b"HTTP" not in await served.rest_of(streams)
    assert not served.front.connections and not served.server.server_state.connections
    assert caplog.records == []


async def test_a_client_that_goes_leaves_nothing(serve, tls):
    """Neither in the front nor in uvicorn."""
    served = serve(LIMITS, tls)
    streams = await served.open()
    await wait_until_async(lambda: served.front.connections)
    streams[1].transport.abort()
    await wait_until_async(lambda: not served.front.connections)
    assert not served.server.server_state.connections


async def test_the_server_stops_without_waiting_for_handshakes(serve, tls):
    """Else each half of one would delay the end of the process."""
    served = serve(replace(LIMITS, head_s=1000.0), tls)
    reader, _ = await served.open()
    await wait_until_async(lambda: served.front.connections)
    begun_s = passed_s()
    served.server.should_exit = True
    assert await reader.read() == b""
    await served.stop()
    assert passed_s() - begun_s < 10  # clock: simulated
