"""What runs on a card has the words that the tests hold the start command to, and commands that the operator plans."""

import importlib.util
import sys
from pathlib import Path

import pytest
from windlass_sizing.settings.flags import FLAGS

ROOT = Path(__file__).resolve().parents[2]

CARD = ROOT / "benchmarks/images_on_card"


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows():
    return loaded(CARD / "rows.py")


def test_the_presets_are_those_of_the_start_commands_tests(rows):
    said = loaded(ROOT / "tests/engine/launch/flag_rows.py")
    minimum = next(row.line for row in said.PRESET_ROWS if row.id == "minimum resources")
    wanted = [f"windlass run {minimum}", f"windlass run {said.RESUME}", said.NATIVE, said.MODULE]
    assert wanted == [row.line for row in rows.PRESETS]


def test_every_method_of_ours_is_served(rows):
    methods = {"none", "fp8", "ifq", "ifq_nf4", "auto"}
    assert methods <= {row.name for row in rows.FEATURES}
    assert "quantization" in {flag.name for flag in FLAGS}


def test_the_planner_makes_a_command_and_figures_for_a_card():
    """The demo model on an H100: what the plan leaves for the cache is the share less weights and the engine's own."""
    plan = loaded(CARD / "planned.py").planned(ROOT / "models/demo", {"quantization": "ifq"}, "NVIDIA H100", 81559)
    assert plan.words[:2] == ("windlass", "run")
    assert plan.words[-2:] == ("--quantization", "ifq")
    assert plan.cache_gib == pytest.approx(79.65 * 0.9 - plan.weights_gib - plan.overhead_gib, abs=0.01)
