"""What the draft model on the host takes of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from windlass.lookahead import host_model
from windlass_lookahead import draft_model

DEMO = Path(__file__).parents[3] / "models/demo"


@pytest.mark.parametrize(
    ("rows", "workers", "expected"), [(8, 1, (8, 14)), (256, 1, (64, 14)), (8, 4, (8, 3)), (8, 99, (8, 1))]
)
def test_workers_share_the_cores(monkeypatch, rows, workers, expected):
    monkeypatch.setattr(draft_model, "free_cores", lambda: 14)
    chosen = host_model.settings_of(rows, workers)
    assert (chosen.rows, chosen.threads) == expected


def test_a_directory_becomes_a_drafter(monkeypatch):
    """And the log says what it takes of the host's memory."""
    lines = []
    monkeypatch.setattr(host_model.logger, "info", lambda text, *values: lines.append(text % values))
    drafter = host_model.host_drafter(str(DEMO), rows=2)
    assert not drafter.is_in_use
    assert "drafts on the host's cores, in 0.0 GiB" in lines[0]
