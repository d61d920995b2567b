"""A8: when evicted prefixes are worth their copies."""

from windlass.engine.prefix_offload.reuse import REMEMBERED, ReuseGate

CAPACITY = 10


def chunks(first: int, count: int) -> list[bytes]:
    return [number.to_bytes(4, "big") for number in range(first, first + count)]


def closed_gate() -> ReuseGate:
    gate = ReuseGate(CAPACITY)
    assert all(gate.admits(chunks(first, 5)) for first in (0, 5, 10))
    assert not gate.is_open
    return gate


def test_a_whole_cache_without_a_hit_closes_it() -> None:
    """One chunk more than the cache holds was kept, and none of them came back."""
    gate = ReuseGate(CAPACITY)
    assert gate.admits(chunks(0, CAPACITY))
    assert gate.is_open
    assert gate.admits(chunks(100, 1))
    assert not gate.admits(chunks(200, 1))


def test_loads_keep_it_open() -> None:
    """However many chunks are kept, as long as some come back within a whole cache."""
    gate = ReuseGate(CAPACITY)
    for first in range(0, 1000, CAPACITY):
        assert gate.admits(chunks(first, CAPACITY))
        gate.came_back()


def test_a_chunk_that_is_offered_again_opens_it() -> None:
    """Its key is remembered while nothing is kept."""
    gate = closed_gate()
    assert not gate.admits(chunks(50, 3))
    assert gate.admits(chunks(52, 3))
    assert gate.is_open


def test_a_chunk_that_is_looked_for_again_opens_it() -> None:
    """Though it was never kept."""
    gate = closed_gate()
    assert not gate.admits(chunks(50, 3))
    gate.looked_for(chunks(60, 1)[0])
    assert not gate.is_open
    gate.looked_for(chunks(51, 1)[0])
    assert gate.is_open


def test_what_the_cache_could_not_have_held_does_not_open_it() -> None:
    """A key is forgotten when more chunks came since than are remembered, so memory is bounded."""
    gate = closed_gate()
    for first in range(1000, 1000 + REMEMBERED * CAPACITY):
        gate.admits(chunks(first, 1))
    gate.looked_for(chunks(0, 1)[0])
    assert not gate.is_open


def test_an_emptied_cache_begins_anew() -> None:
    """Open, and without a memory of earlier keys."""
    gate = closed_gate()
    gate.forget()
    assert gate.is_open
    assert gate.admits(chunks(0, 11))
    assert not gate.is_open
