"""A12: the worker of `--conservative-dry-run` on a simulated card, in the image: a CPU has no such steps."""

import pytest


@pytest.fixture(scope="module")
def found(engine):
    return engine.result("/repo/tests/engine/dry_run/keep_exactly.py")


def test_the_cache_gets_less_by_what_a_full_batch_takes(found):
    """5 GiB of the batch, of which the profile has 2, and half a GiB that stays; the engine's suggestion knows it."""
    assert found["kept"] == {
        "given_gib": 36.5,
        "reported_gib": 36.5,
        "profiled_gib": 6.5,
        "steps": ["3073 blocks", "forward", "warm-up of 1024", "warm-up of 768", "warm-up of 1024", "end"],
        "requests_after": 1024,
    }


def test_the_largest_tensor_is_kept_again_where_free_memory_is_in_pieces(found):
    """5,120 rows of 131,072 words in bfloat16 are 1.25 GiB, for each of two steps. Pooling has none."""
    assert found["spare"] == [2.5, 2.5, 0, 0]


def test_a_small_cache_where_room_is_short(found):
    """Half of the room holds the cache; fewer requests run then, and are counted as the whole batch."""
    assert found["short"] == ["1024 blocks", "forward", *(f"warm-up of {size}" for size in (341, 255, 341)), "end"]


def test_nothing_is_measured_for_a_given_size_and_an_older_runner(found):
    assert found["unmeasured"] == [40, 40, [], []]


def test_a_batch_that_does_not_fit_ends_the_start(found):
    """The sentence names the flags to lower."""
    sentence, last = found["refused"]
    assert "lower --max-num-seqs, --max-num-batched-tokens or the number of drafts" in sentence
    assert last == "end"
