"""Whatever the API server takes and the cluster answers, the operator tells it, lives, and comes to rest.

`WINDLASS_HOSTILE_SPECS=2000` draws that many, `WINDLASS_HOSTILE_SEED` others; the gate draws sixty.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from hostile_bed import hostile_bed
from hostile_run import Figures, fuzz
from hostile_table import table
from hostile_wrongs import BREAKS, sentences

COUNT = int(os.environ.get("WINDLASS_HOSTILE_SPECS", "60"))
SEED = int(os.environ.get("WINDLASS_HOSTILE_SEED", "7"))
WRITES_MAX = 60  # of one service: its objects, a status and an Event for each thing that happens to it, four specs
LATE_SHARE = 0.1


@pytest.mark.apiserver
@pytest.mark.timeout(3600)
async def test_hostile_specs_leave_the_operator_well(tmp_path: Path):
    async with hostile_bed(tmp_path) as bed:
        told = await fuzz(bed, COUNT, SEED, settle_s=120)
    print(table(told))
    _judge(told)


def _judge(told: Figures) -> None:
    assert told.tried == COUNT
    assert told.accepted >= COUNT // 2, "nearly everything was refused by the API server: nothing was tried"
    assert told.complaints == [], "a refusal does not name the field and what to do"
    assert told.alive, "the operator ended"
    assert (told.errors, dict(told.tracebacks)) == (0, {}), "a run of the operator ended with an exception"
    assert told.silent == [], "nothing was said of some services"
    assert max(told.writes) <= WRITES_MAX
    assert told.late.total() <= told.accepted * LATE_SHARE, "services that nobody touches are written again and again"


def test_every_rule_of_the_crd_is_broken_by_a_row():
    """So that each of our sentences is seen in a refusal."""
    unbroken = [text for text in sentences() if not any(words.words in text for words, _ in BREAKS)]
    assert unbroken == []
