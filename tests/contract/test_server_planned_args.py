"""Operator → server: every command line that the operator renders is one that the server's own parser takes."""

from itertools import pairwise
from pathlib import Path

import yaml
from windlass.group import leave
from windlass.group.plan import group_plan
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass.supervisor.board import READY_PATH
from windlass_testbed.cases import every_case

GOLDEN = Path(__file__).parents[2] / "operator" / "tests" / "golden"
MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=131072, attention_heads=64)
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
NODE = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(8)))


def containers() -> list[tuple[str, dict]]:
    found = []
    for path in sorted(GOLDEN.glob("deployment-*.yaml")):
        pod = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]
        found += [(path.stem, container) for container in pod["containers"] if container.get("command") == ["windlass"]]
    return found


@every_case("name, container", containers(), ids=[name for name, _ in containers()])
def test_golden_arguments_resolve(name: str, container: dict) -> None:
    """The flags are ours or the engine's; the plan's values come out as they went in."""
    command, *words = container["args"]
    variables = {row["name"]: row["value"] for row in container["env"] if "value" in row}
    variables.pop("MERGE_LORA", None)  # there are no files: test_adapters.py has real ones
    plan = resolve(tuple(words), variables, MODEL, NODE)
    assert command == "run"
    assert plan.model_path == "/data/model"
    said = dict(pairwise(words))
    for flag in ("--tensor-parallel-size", "--max-model-len"):
        if flag in said:
            assert plan.value(flag.removeprefix("--")) == int(said[flag])


def members() -> list[tuple[str, dict, int]]:
    found = []
    for path in sorted((GOLDEN / "groups").glob("*.yaml")):
        for one in yaml.safe_load_all(path.read_text()):
            if one["kind"] == "StatefulSet":
                container, name = one["spec"]["template"]["spec"]["containers"][0], one["metadata"]["name"]
                found += [(f"{name}-{index}", container, index) for index in range(one["spec"]["replicas"])]
    return found


@every_case("pod, container, index", members())
def test_golden_members_find_their_place(pod: str, container: dict, index: int) -> None:
    """Every member reads its place out of the variables and its pod's name, and takes the planned split."""
    _, *words = container["args"]
    variables = {row["name"]: row["value"] for row in container["env"] if "value" in row}
    group = group_plan(variables, pod, "cuda")
    assert group is not None
    assert (group.index, group.is_head) == (index, group.head.startswith(f"{pod}."))
    assert group.revision == variables["WINDLASS_GROUP_REVISION"]
    gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
    node = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(gpus)), group=group)
    plan = resolve(tuple(words), variables, MODEL, node)
    said = dict(pairwise(words))
    assert plan.value("tensor-parallel-size") == int(said["--tensor-parallel-size"])
    assert plan.value("tensor-parallel-size") * int(said.get("-pp", 1)) == group.size * gpus


def test_the_members_probes_pass() -> None:
    """The probed path is the one that the server's facts port knows."""
    probes = {container[kind]["httpGet"]["path"] for _, container, _ in members() for kind in PROBES}
    assert probes == {READY_PATH}


def test_the_members_hook_is_there() -> None:
    """The module that the preStop hook runs is one of the server's."""
    hooks = {tuple(container["lifecycle"]["preStop"]["exec"]["command"][:3]) for _, container, _ in members()}
    assert hooks == {("python3", "-m", leave.__name__)}


def test_there_is_something_to_check() -> None:
    """The golden files are where this test looks."""
    assert containers()
    assert members()
