"""Whatever spec the API server takes, the operator says something about it, stays alive, and comes to rest.

`WINDLASS_HOSTILE_SPECS=2000` draws that many, `WINDLASS_HOSTILE_SEED` others; the gate draws sixty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from api_bed import api_bed
from fault_bed import Bed
from hostile_specs import fuzz

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(3600)]
COUNT = int(os.environ.get("WINDLASS_HOSTILE_SPECS", "60"))
SEED = int(os.environ.get("WINDLASS_HOSTILE_SEED", "7"))
WRITES_MAX = 12  # of one service that is inspected and never answered: its Job, its status, a few Events


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with api_bed(tmp_path) as bed:
        yield bed


def test_hostile_specs_leave_the_operator_well(bed: Bed):
    told = fuzz(bed, COUNT, SEED, settle_s=60)
    print(told)
    assert told.tried == COUNT
    assert told.accepted >= COUNT // 20, "nearly everything was refused by the API server: nothing was tried"
    assert told.unlooked == ()
    assert told.errors == 0, "a run of the operator ended with an exception"
    assert told.writes_per_service <= WRITES_MAX
    assert told.late_writes <= told.accepted * 0.1, "services that nobody touches are written again and again"
