"""The model's own context for every family that the engine treats apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_testbed.cases import every_case

ROWS = json.loads((Path(__file__).parent / "data" / "engine" / "contexts.json").read_text())
ENGINE_DEFAULT = 2048


@every_case("row", ROWS, ids=[row["name"] for row in ROWS])
def test_the_context_is_what_the_engine_derives(row):
    """Else a plan would promise a length that the server refuses, or refuse one that it serves."""
    facts = from_config(row["config"])
    is_open = row["length"] is None
    assert (facts.max_model_len, bool(facts.takes_any_length)) == (row["length"] or ENGINE_DEFAULT, is_open)
    assert facts.takes(facts.max_model_len)
    assert facts.takes(facts.max_model_len + 1) is is_open
    assert ModelFacts.from_dict(facts.to_dict()) == facts


@pytest.mark.parametrize("factor", [None, "x", True, [2]])
def test_a_factor_that_is_no_number_stretches_nothing(factor):
    """The engine takes an unset factor for 1."""
    config = ROWS[0]["config"] | {"rope_scaling": {"rope_type": "linear", "factor": factor}}
    assert from_config(config).max_model_len == ROWS[0]["length"]
