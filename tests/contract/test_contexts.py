"""Operator, `windlass plan` and `windlass run` take and refuse the same contexts: those that the engine takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from windlass.cli.main import app
from windlass.errors import UsageError
from windlass.launch.model import Machine
from windlass.launch.probe import model_files
from windlass.launch.resolve import resolve
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_sizing.model.facts import from_config

ROWS = json.loads((Path(__file__).parents[2] / "lib/sizing/tests/data/engine/contexts.json").read_text())
FAR = 4_000_000


def operator_takes(config: dict[str, Any], tokens: int) -> bool:
    spec = {
        "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}},
        "engine": {"maxModelLen": tokens},
        "deployment": {"mode": "Auto"},
    }
    nodes = Inventory((NodeGpus("n", "H200", 140.0, 8, 8),))
    found = decide(LLMServiceSpec.model_validate(spec), from_config(config), nodes)
    return isinstance(found, Plan) or found.reason != "ContextTooLong"


def plan_takes(folder: Path, tokens: int) -> bool:
    result = CliRunner().invoke(app, ["plan", str(folder), "--gpu", "H200", "--max-model-len", str(tokens)])
    return not (isinstance(result.exception, UsageError) and "longer than the model's own" in str(result.exception))


def run_takes(folder: Path, tokens: int) -> bool:
    try:
        resolve(("--max-model-len", str(tokens)), {}, model_files(str(folder)), Machine("cpu"))
    except UsageError as error:
        return "longer than the model's own" not in str(error)
    return True


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_all_take_what_the_engine_takes(row: dict[str, Any], tmp_path: Path) -> None:
    """The longest, and not one token more; any where the engine knows none."""
    (tmp_path / "config.json").write_text(json.dumps(row["config"]))
    longest = row["length"] or FAR
    for tokens, is_taken in ((longest, True), (longest + 1, row["length"] is None)):
        found = operator_takes(row["config"], tokens), plan_takes(tmp_path, tokens), run_takes(tmp_path, tokens)
        assert found == (is_taken,) * 3
