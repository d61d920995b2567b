"""The contract that keeps steps of the guard apart names each of them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = {"__init__", "lifespan", "own_answers", "request", "state"}
"""Modules beside the steps, which steps or the guard may import."""


def test_the_contract_names_every_step() -> None:
    """A step that it does not name could import another."""
    steps = {file.stem for file in (ROOT / "server/src/windlass/api/steps").glob("*.py")} - SHARED
    rows = (ROOT / ".importlinter").read_text().split()
    assert steps == {row.rpartition(".")[2] for row in rows if row.startswith("windlass.api.steps.")}
