"""What we record of the engine is what the installed engine says, and its own classes give our verdicts."""

import json

import pytest
from windlass_sizing.decision import decide
from windlass_sizing.engine import RECORD
from windlass_sizing.methods import READERS
from windlass_sizing.question import Architecture, Card, Checkpoint


@pytest.fixture(scope="module")
def said(engine):
    """What the engine printed."""
    return engine.result("/repo/tests/engine/print_abilities.py")


def test_the_record_is_what_the_engine_says(said):
    """A new engine shows here what it changed; tools/engine_abilities.py writes the record again."""
    recorded = json.loads(RECORD.read_text())
    assert {name: recorded[name] for name in said["own"]} == said["own"]


def test_the_engine_s_own_classes_give_our_verdicts(said):
    """Each checkpoint's method on each compute capability in each number format."""
    cells = [cell for cell in said["verdicts"] if READERS.get(cell[0])]
    assert len(cells) > 500
    assert [cell for cell in cells if verdict(*cell[:3]) != cell[3]] == []


def verdict(name: str, capability: int, dtype: str) -> bool:
    """Whether we say that a checkpoint of this method is served."""
    return decide(None, dtype, Card("card", divmod(capability, 10)), Architecture(), Checkpoint(name)).problem is None
