"""A11: the rows of each rank and the exchange, by real processes, against one rank in float64, without a GPU."""

import pytest

pytestmark = pytest.mark.on_cpu
SCRIPT = "/repo/tests/engine/sequence_parallel/split_exactly.py"


@pytest.mark.parametrize(("ranks", "draws"), [(2, 8), (3, 4)])
def test_each_token_has_the_attention_of_one_rank(engine, ranks, draws):
    """Odd lengths, borders of blocks and steps, cached prefixes, padded steps; all caches hold the same."""
    found = engine.result(SCRIPT, str(ranks), str(draws))
    assert found["wrong"] == []
    assert found["gathers"] > 0


def test_the_comparison_sees_a_missing_exchange(engine):
    """With keys and values of one rank alone it must fail."""
    assert engine.result(SCRIPT, "2", "4", "alone")["wrong"]


def test_the_engine_takes_our_attention(engine):
    """The worker's module registers it under the name that the start command gives."""
    found = engine.result("/repo/tests/engine/sequence_parallel/names.py")
    assert found == {"backend": "SequenceParallelBackend", "splits": True, "manager": "SequenceParallelManager"}
