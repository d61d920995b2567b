"""Operator → server: every command line that the operator renders is one that the server's own parser takes."""

from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from windlass.launch.model import Gpu, Machine, ModelFiles
from windlass.launch.resolve import resolve

GOLDEN = Path(__file__).parents[2] / "operator" / "tests" / "golden"
MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=131072, attention_heads=64)
NODE = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(8)))


def containers() -> list[tuple[str, dict]]:
    found = []
    for path in sorted(GOLDEN.glob("deployment-*.yaml")):
        pod = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]
        found += [(path.stem, container) for container in pod["containers"] if container["command"] == ["windlass"]]
    return found


@pytest.mark.parametrize(("name", "container"), containers(), ids=[name for name, _ in containers()])
def test_golden_arguments_resolve(name: str, container: dict) -> None:
    """The flags are ours or the engine's; the plan's values come out as they went in."""
    command, *words = container["args"]
    variables = {row["name"]: row["value"] for row in container["env"] if "value" in row}
    plan = resolve(tuple(words), variables, MODEL, NODE)
    assert command == "run"
    assert plan.model_path == "/data/model"
    said = dict(pairwise(words))
    for flag in ("--tensor-parallel-size", "--max-model-len"):
        if flag in said:
            assert plan.value(flag.removeprefix("--")) == int(said[flag])


def test_there_is_something_to_check() -> None:
    """The golden files are where this test looks."""
    assert containers()
