"""The longest context that the plan allows is the longest that the engine's own function takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from windlass_sizing.model.facts import from_config

ROWS = Path(__file__).parents[3] / "lib/sizing/tests/data/engine/contexts.json"


@pytest.fixture(scope="module")
def found(engine: Any) -> dict[str, int | None]:
    """The engine's limit of each row; None for any length."""
    return engine.result("/repo/tests/engine/models/print_context_lengths.py", timeout_s=300)


def test_longest_contexts_are_the_engine_s(found: dict[str, int | None]) -> None:
    """One row for each family that the engine treats apart."""
    facts = {row["name"]: from_config(row["config"]) for row in json.loads(ROWS.read_text())}
    assert {name: None if one.takes_any_length else one.max_model_len for name, one in facts.items()} == found
