"""/metrics before and after a run."""

import pytest
from windlass.bench.serving.counters import Counted, Snapshot, difference, snapshot

from .samples import COUNTED, METRICS


def test_counters_are_summed_over_engines() -> None:
    """Each engine of the pod has a sample; comments and the times of making count nowhere."""
    seen = snapshot(METRICS)
    assert seen is not None
    assert {name: count for name, count in seen.counts.items() if count is not None} == {
        "prompt_tokens": 1500,
        "generation_tokens": 1500,
        "prefix_queries": 1500,
        "prefix_hits": 0,
    }
    assert (seen.prefix_cache, seen.offload, seen.lookahead) == (True, False, True)


@pytest.mark.parametrize("text", ["", "<html>", "up 1", "vllm:prompt_tokens_total many"])
def test_other_metrics_are_none(text: str) -> None:
    """A server that is not vLLM has no counters, and none of value zero."""
    assert snapshot(text) is None


def test_difference() -> None:
    """What was added; a counter that came up during the run began at zero."""
    before = Snapshot({"prompt_tokens": 10, "prefix_hits": 5})
    after = Snapshot({"prompt_tokens": 30, "prefix_hits": 5, "drafts": 4}, prefix_cache=True, offload=True)
    assert difference(before, after) == Counted(
        prompt_tokens=20, prefix_hits=0, drafts=4, prefix_cache=True, offload=True
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, Snapshot({"prompt_tokens": 1})),
        (Snapshot({"prompt_tokens": 1}), None),
        (Snapshot({"prompt_tokens": 9}), Snapshot({"prompt_tokens": 1})),
    ],
    ids=["not before", "not after", "started anew"],
)
def test_no_difference(before: Snapshot | None, after: Snapshot | None) -> None:
    """A share of half a count would be invented."""
    assert difference(before, after) is None


def test_shares() -> None:
    """Of nothing asked there is no share."""
    assert (COUNTED.hit_rate, COUNTED.acceptance, COUNTED.acceptance_length) == (0.01, 0.6, 4.0)
    assert (Counted().hit_rate, Counted(drafts=0, accepted_tokens=0).acceptance_length) == (None, None)
    assert Counted(external_queries=4, external_hits=1).offload_hit_rate == 0.25
