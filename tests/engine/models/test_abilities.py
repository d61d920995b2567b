"""What we record of the engine, and of its verdicts, is what the installed engine says."""

import json
from pathlib import Path

import pytest
from windlass_sizing.quantization.engine import RECORD

VERDICTS = Path(__file__).parents[3] / "lib/sizing/tests/engine_verdicts.json"


@pytest.fixture(scope="module")
def said(engine):
    """What the engine printed."""
    return engine.result("/repo/tests/engine/models/print_abilities.py")


def test_the_record_is_what_the_engine_says(said):
    """A new engine shows here what it changed; tools/engine_abilities.py writes the record again."""
    recorded = json.loads(RECORD.read_text())
    assert {name: recorded[name] for name in said["own"]} == said["own"]


def test_the_recorded_verdicts_are_those_of_the_engine_s_own_classes(said):
    """`lib/sizing/tests/test_engine_verdicts.py` holds our decision to the record."""
    recorded = json.loads(VERDICTS.read_text())
    assert len(said["verdicts"]) == 720
    wrong = [cell for cell in said["verdicts"] if (cell[2] in recorded[cell[0]][str(cell[1])]) != cell[3]]
    assert wrong == []
