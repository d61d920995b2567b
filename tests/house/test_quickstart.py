"""README's quickstart, the tutorial and the example say the same; tests/kind/test_e2e_quickstart.py runs it."""

import re
from pathlib import Path

import yaml
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_sizing.files.checkpoint import inspect
from windlass_testbed import demo

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/first-service.yaml"


def commands(page: str, heading: str = "") -> list[str]:
    """The lines of a page's consoles that begin with a prompt, in order; of one section where it is named."""
    text = (ROOT / page).read_text()
    if heading:
        text = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_the_tutorial_has_the_readmes_commands_in_order() -> None:
    """Word for word, with others between them."""
    short, long = commands("README.md", "Quickstart"), commands("docs/tutorials/first-service.md")
    assert len(short) == 6
    assert [line for line in long if line in short] == short


def test_the_example_is_valid_and_makes_its_own_claim() -> None:
    """The service reads the claim that stands beside it, of no named StorageClass."""
    claim, service = yaml.safe_load_all(EXAMPLE.read_text())
    found = LLMService.model_validate(service)
    assert found.spec.model.source.pvc is not None
    assert (claim["kind"], claim["metadata"]["name"]) == (
        "PersistentVolumeClaim",
        found.spec.model.source.pvc.claim_name,
    )
    assert "storageClassName" not in claim["spec"]


def test_the_tutorial_shows_the_examples_service() -> None:
    """The page cannot drift from the file that the reader applies."""
    service = EXAMPLE.read_text().split("---\n")[1]
    assert f"```yaml\n{service}```" in (ROOT / "docs/tutorials/first-service.md").read_text()


def test_the_charts_notes_carry_the_example() -> None:
    """`make charts` copies it."""
    assert (ROOT / "charts/windlass/files/first-service.yaml").read_text() == EXAMPLE.read_text()


def test_the_readme_shows_todays_plan_of_the_demo() -> None:
    """The lines that `make demo` prints of the model in models/demo on the cluster's nodes."""
    service = LLMService.model_validate(yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text()))
    facts = inspect(ROOT / "models", "demo", "PVC models").facts
    assert facts is not None
    plan = decide(service.spec, facts, Inventory((NodeGpus("node", "NVIDIA-L20", 46068 / 1024, 8, 8),)))
    assert isinstance(plan, Plan)
    assert "\n".join(demo.plan_lines(plan.to_status())) in (ROOT / "README.md").read_text()
