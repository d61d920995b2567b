"""Rules of sampling beside drafts: at each place the logits are those of a request that never drafted."""

import pytest

RULES = "/repo/tests/engine/identity/rules.py"
DRAFTERS = ("lookahead", "ngram", "draft-model")


@pytest.mark.on_cpu
def test_each_drafted_place_has_the_logits_of_a_request_without_drafts(engine):
    """On 400 random steps of the V1 runner: every rule, alone and with others, met hundreds of drafting requests."""
    found = engine.result("/repo/tests/engine/sampling/rules_exactly.py", "400")
    assert found["wrong"] == []
    assert len(found["met"]) == 8
    assert min(found["met"].values()) >= 100


@pytest.mark.long
def test_outputs_and_distributions_are_those_without_drafts(engine):
    """Greedy tokens of seven rules, and draws with four by a chi-square test, beside each way to draft.

    The script fails where anything differs, where a rule changes nothing, and where no draft was accepted or refused.
    """
    found = engine.result(RULES, "/repo/models/demo", "--drafters", ",".join(DRAFTERS), "--draws", "300")
    assert found["red"] == []
    assert {row["drafter"] for row in found["greedy"]} == set(DRAFTERS)
    assert all(row["equal"] == row["outputs"] == 12 for row in found["greedy"])
    assert (len(found["greedy"]), len(found["drawn"])) == (8 * len(DRAFTERS), 5 * len(DRAFTERS))
