"""Text for the lookahead tests."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def prose() -> list[int]:
    """Six hundred tokens, each once: whatever is drafted from it was copied."""
    return random.Random(7).sample(range(100, 7900), 600)  # noqa: S311  seeded, no secret
