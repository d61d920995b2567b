"""A8: chunks and the debugging limit."""

import pytest
from windlass.engine.prefix_offload.settings import NO_LIMIT, beyond, blocks_per_chunk


@pytest.mark.parametrize(("blocks", "expected"), [([16], 16), ([64], 4), ([16, 64], 4), ([256], 1), ([1024], 1)])
def test_a_chunk_is_256_tokens(blocks: list[int], expected: int) -> None:
    """Of the largest block, or one block where that is larger."""
    assert blocks_per_chunk(blocks) == expected


@pytest.mark.parametrize(
    ("cached", "limit", "expected"),
    [
        ([1, 2, 3], NO_LIMIT, set()),
        ([1, 2, 3], 3, set()),
        ([1, 2, 3], 2, {1}),
        ([1, 2, 3], 0, {1, 2, 3}),
        ([], 0, set()),
    ],
)
def test_the_oldest_go_beyond_the_limit(cached: list[int], limit: int, expected: set[int]) -> None:
    """Free blocks that hold a prefix, oldest first."""
    assert beyond(cached, limit) == expected
