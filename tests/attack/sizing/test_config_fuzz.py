"""Bent config.json files, safetensors headers and indexes end in a plan or a named reason, in bounded time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).with_name("fuzz.py")
EXAMPLES = int(os.environ.get("WINDLASS_FUZZ_EXAMPLES", "500"))
A_RUN_S = 120 + EXAMPLES * 0.05
PEAK_MIB_MAX = 256
CAME_BY_EXAMPLES = 500  # so many inputs meet each of these outcomes
OUTCOMES = {"Planned", "ConfigBroken", "ConfigImplausible", "ShardBroken", "IndexBroken", "ShardMissing"}


def test_every_bent_model_ends_in_a_plan_or_a_reason():
    """Chance is seeded: the gate's inputs are the first of the long run's."""
    command = [sys.executable, str(FUZZ), "0", str(EXAMPLES)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=A_RUN_S, check=False)
    assert ended.stdout, ended.stderr[-2000:]
    answer = json.loads(ended.stdout)
    assert answer["failures"] == []
    assert (answer["failed"], answer["inputs"]) == (0, EXAMPLES)
    assert answer["peak_mib"] <= PEAK_MIB_MAX
    if EXAMPLES >= CAME_BY_EXAMPLES:
        assert answer["outcomes"].keys() >= OUTCOMES
