"""Which connection goes when there are too many."""

from __future__ import annotations

from windlass_base.front.peers import FrontLimits

CONNECTIONS = 4
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


async def test_an_address_with_many_makes_room_before_one_that_waits_longer(serve):
    """A probe is answered, though it came before all of the others."""
    served = serve(FrontLimits(connections=CONNECTIONS))
    alone = await served.open(source="127.0.0.9")
    many = [await served.open(source="127.0.0.2") for _ in range(2 * CONNECTIONS)]
    assert await served.rest_of(many[0]) == b""
    alone[1].write(REQUEST)
    assert (await served.rest_of(alone)).startswith(b"HTTP/1.1 200 ")


async def test_of_equal_addresses_the_one_that_waits_longest_makes_room(serve):
    served = serve(FrontLimits(connections=CONNECTIONS))
    first, *others = [await served.open(source=f"127.0.0.{number + 2}") for number in range(CONNECTIONS + 1)]
    assert await served.rest_of(first) == b""
    for one in others:
        one[1].write(REQUEST)
        assert (await served.rest_of(one)).startswith(b"HTTP/1.1 200 ")
