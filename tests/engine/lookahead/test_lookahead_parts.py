"""Parts of lookahead's integrations against the engine's own, on drawn cases: no server, and the GPU is simulated."""

import pytest

pytestmark = pytest.mark.on_cpu


def test_sampling_parameters_reach_each_draft(engine):
    """What takes the place of the engine's own expansion, which on CPUs writes into a copy."""
    assert engine.result("/repo/tests/engine/lookahead/spread_exactly.py", "200")["wrong"] == []


def test_the_engine_gets_the_batch_that_the_device_lays_out(engine):
    """The host's side of placing; the kernel runs on a GPU alone (tests/card/placing.py)."""
    assert engine.result("/repo/tests/engine/lookahead/place_exactly.py", "300")["wrong"] == []


def test_drafts_follow_their_requests_to_the_next_step(engine):
    """When records are written and drafts are taken.

    The kernels run on a GPU alone (tests/card/waiting.py).
    """
    assert engine.result("/repo/tests/engine/lookahead/take_exactly.py", "300")["wrong"] == []


def test_captured_drafts_are_the_engines_own(engine):
    """Whole passes of a draft model, on a simulated device. A card captures them (benchmarks/speculation_methods)."""
    found = engine.result("/repo/tests/engine/lookahead/graph_exactly.py", "60")
    assert found["wrong"] == []
    assert found["replayed"] > 400, "steps without prompts are replayed"


def test_the_scheduler_plans_by_draft_budgets(engine):
    assert engine.result("/repo/tests/engine/lookahead/plan_exactly.py")["wrong"] == []


def test_the_first_steps_are_the_engines_own_as_they_are_served(engine):
    """All of the requests, two, one, and some sizes for top-p.

    They draft and do not, with adaptive verification, by each kind of sampling.
    """
    found = engine.result("/repo/tests/engine/lookahead/first_steps.py")
    whole, failed = found["whole"], found["failed"]
    assert found["same"], "vLLM cuts a row for its top-p kernels another way"
    assert found["batches"] == {"72": [3, 5, 10, 19, 37], "132": [5, 9, 17, 34]}
    assert whole["steps"] == 7 * whole["rounds"]
    assert whole["rows"] == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1]] + [
        [rows, drafting] for rows in (5, 9, 17, 34, 64) for drafting in (0, rows)
    ]
    assert whole["most"] == 64
    assert whole["temperatures"] == [0.0, 0.7, 0.9, 1.0]
    assert whole["adaptive"]
    assert failed["steps"] == 3
    for one in (whole, failed):
        assert (one["left"], one["disabled"], one["restored"]) == (0, False, True)
