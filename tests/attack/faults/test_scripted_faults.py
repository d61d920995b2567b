"""The gate's sample of the corpus on the real API server: each fault has its word, and its planted word is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the corpus is a program; its modules are found beside it

from api_bed import api_bed
from corpus import one
from fault_bed import Bed
from scripted_faults import FAULTS, SAMPLE

pytestmark = pytest.mark.apiserver


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with api_bed(tmp_path_factory.mktemp("faults")) as bed:
        yield bed


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.id in SAMPLE], ids=lambda fault: fault.id)
def test_a_fault_is_named(bed: Bed, fault):
    result = one(bed, fault)
    assert (result.reason, result.ok) == (fault.reason, True), result.message
