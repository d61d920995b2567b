"""What the draft model on the host takes of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from windlass.engine.lookahead import host_model
from windlass.engine.lookahead.settings import LookaheadSettings
from windlass_lookahead import draft_model

DEMO = Path(__file__).parents[4] / "models/demo"


@pytest.mark.parametrize(
    ("rows", "known", "expected"),
    [(8, {}, (8, 14)), (256, {}, (64, 14)), (8, {"workers": 4}, (8, 3)), (8, {"workers": 99}, (8, 1)),
     (8, {"workers": 2, "draft_threads": 5}, (8, 5))],
)  # fmt: skip
def test_workers_share_the_cores(monkeypatch, rows, known, expected):
    """Unless the start command says how many each has."""
    monkeypatch.setattr(draft_model, "free_cores", lambda: 14)
    chosen = host_model.settings_of(LookaheadSettings(**known), rows)
    assert (chosen.rows, chosen.threads) == expected


def test_a_directory_becomes_a_drafter(monkeypatch):
    """And the log says what it takes of the host's memory."""
    lines = []
    monkeypatch.setattr(host_model.logger, "info", lambda text, *values: lines.append(text % values))
    drafter = host_model.host_drafter(LookaheadSettings(draft_model=str(DEMO), draft_threads=2), rows=2)
    assert not drafter.is_in_use
    assert "drafts on 2 of the host's cores, in 0.0 GiB" in lines[0]


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({}, 62),
        ({"cpu.max": "max 100000\n"}, 62),
        ({"cpu.max": "800000 100000\n"}, 6),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 62),
        ({"cpu/cpu.cfs_quota_us": "350000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu.max": "9900000 100000\n"}, 62),
    ],
)
def test_a_containers_quota_bounds_the_threads(monkeypatch, tmp_path, files, threads):
    """A pod's limit leaves all processors of its node visible."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert draft_model.free_cores(tmp_path) == threads
