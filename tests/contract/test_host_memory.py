"""The operator's figures for host memory are those of the server: the engine's flags, and the lookahead cache."""

from __future__ import annotations

import pytest
from windlass_api.plan import offload
from windlass_lookahead import LookaheadCache, Options
from windlass_sizing import engine_flags

OFFLOADING = (
    offload.KV_SIZE, offload.KV_BACKEND, offload.KV_TRANSFER, offload.WEIGHTS_GIB, offload.GROUP, offload.GROUP_PART,
    offload.PROCESSOR_GIB,
)  # fmt: skip


@pytest.mark.parametrize("flag", OFFLOADING)
def test_the_pinned_engine_has_the_flag(flag):
    """A flag that a newer engine renames would ask for nothing."""
    assert flag in engine_flags.record().takes


def test_the_lookahead_cache_is_no_larger_than_planned():
    """The table as it is made by default, and the indexes of requests that have run to their end."""
    cache = LookaheadCache(Options())
    table = cache.memory_bytes
    assert 0.9 * table < offload.LOOKAHEAD_TABLE_GIB * 2**30 < 1.1 * table
    for tokens in (1, 300, 2048, 8192, 9000):
        cache.begin("one", [n % 5000 + 3 for n in range(tokens)])
        index = cache.memory_bytes - table
        planned = tokens * offload.LOOKAHEAD_TOKEN_BYTES + offload.LOOKAHEAD_REQUEST_BYTES
        assert 0.4 * planned < index <= planned
        cache.finish("one")


def test_an_index_that_grows_by_answers_stays_within_the_plan():
    """Its room doubles, so it is widest just after that."""
    cache = LookaheadCache(Options(cache_size=1000))
    table = cache.memory_bytes
    cache.begin("one", [5])
    for tokens in range(2, 6000):
        cache.accept(["one"], [[tokens % 5000 + 3]])
        if not tokens % 50:
            planned = tokens * offload.LOOKAHEAD_TOKEN_BYTES + offload.LOOKAHEAD_REQUEST_BYTES
            assert cache.memory_bytes - table <= planned, tokens
