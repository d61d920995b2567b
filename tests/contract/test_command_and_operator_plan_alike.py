"""Cases that the operator and `windlass plan` judge alike; and remedies that can be followed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.cli.main import app
from windlass.errors import WindlassError
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Refusal
from windlass_operator.status import reasons
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement import gpus

sys.path.insert(0, str(Path(__file__).parent))

from test_plans_agree import CONFIGS

ROOT = Path(__file__).parents[2]


def refusal(config: dict[str, object], card: str, nodes: int, per_node: int, **engine: object) -> str:
    """Why the operator does not plan it on so many nodes; empty when it does."""
    spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "deployment": {"mode": "Auto"}}
    inventory = Inventory(
        tuple(NodeGpus(f"n{at}", card, gpus.GPUS[card].real_gib, per_node, per_node) for at in range(nodes))
    )
    plan = decide(LLMServiceSpec.model_validate({**spec, "engine": engine}), from_config(config), inventory)
    return plan.sentence() if isinstance(plan, Refusal) else ""


def plan_command(folder: Path, config: dict[str, object], *words: str) -> str:
    """Why `windlass plan` does not plan it; empty when it does."""
    (folder / "config.json").write_text(json.dumps(config))
    result = CliRunner().invoke(app, ["plan", str(folder), "-o", "json", *words])
    if isinstance(result.exception, WindlassError):
        return str(result.exception)
    answer = json.loads(result.stdout)
    return "" if answer["fits"] else str(answer["error"])


@pytest.mark.parametrize(("model", "nodes", "per_node"), [("gpt-oss-120b", 1, 4), ("DeepSeek-R1", 4, 8)])
def test_no_v100_is_planned(model: str, nodes: int, per_node: int, tmp_path: Path) -> None:
    """The audit's two plans that could not start."""
    words = ("--gpu", "V100-32G", "--nodes", str(nodes), "--gpus-available", str(per_node))
    for said in (
        refusal(CONFIGS[model], "V100-32G", nodes, per_node),
        plan_command(tmp_path, CONFIGS[model], *words),
    ):
        assert "V100-32G has 7.0" in said
        assert "7.5" in said


def test_mxfp4_is_planned_in_bfloat16_from_8_0(tmp_path: Path) -> None:
    """A T4 and float16 are refused; an H100 is planned."""
    model = CONFIGS["gpt-oss-120b"]
    assert "needs compute capability 8.0" in refusal(model, "T4", 4, 8)
    assert "computes in bfloat16, not float16" in refusal(model, "H100", 1, 8, dtype="float16")
    assert refusal(model, "H100", 1, 8) == ""
    assert "computes in bfloat16, not float16" in plan_command(tmp_path, model, "--gpu", "H100", "--dtype", "float16")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quantization_config": {"quant_method": "awqq", "bits": 4}}, "the nearest that it reads is awq"),
        ({"architectures": ["Qwen33ForCausalLM"]}, "the nearest that it has is Qwen3ForCausalLM"),
    ],
    ids=["quant_method", "architecture"],
)
def test_an_unknown_checkpoint_names_the_nearest(change: dict[str, object], words: str, tmp_path: Path) -> None:
    """By the operator before any pod, and by the command."""
    config = {**CONFIGS["Qwen3-8B"], **change}
    assert words in refusal(config, "L20", 1, 8)
    assert words in plan_command(tmp_path, config, "--gpu", "L20")


@pytest.mark.parametrize("card", ["A10G", "GB200", "B300", "GB300", "L40", "H20", "RTX-PRO-6000"])
def test_new_cards_are_known(card: str) -> None:
    """Each has memory and a compute capability."""
    found = gpus.find(card)
    assert found is not None
    assert found.real_gib > 20
    assert found.capability >= (8, 6)


def test_the_remedy_of_an_untrusted_hub_is_a_value_of_the_chart() -> None:
    """The value stands in the chart's schema."""
    assert "download.caBundle" in reasons.TABLE["HubUntrusted"].remedy
    schema = json.loads((ROOT / "charts/windlass/values.schema.json").read_text())
    assert "caBundle" in schema["properties"]["download"]["properties"]


@pytest.mark.parametrize("words", [("plan", "/nope"), ("run", "/nope", "--explain")], ids=["plan", "run"])
def test_plan_and_run_end_alike_without_a_model(words: tuple[str, ...]) -> None:
    """Exit code 3 is a model that cannot be served."""
    assert getattr(CliRunner().invoke(app, list(words)).exception, "exit_code", None) == 3
