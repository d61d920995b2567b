"""Every leaf of the spec does something: changed alone, it changes an object that the operator makes.

A field that changes nothing is a promise that is not kept. And every command line that any of these specs makes is one
that the real server's parser takes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from spec_changes import BASE, CHANGES, INERT, NOT_DEEPSPEED, SETTINGS, changed, merged, rendered, serving_containers
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.rules import VLLM_ONLY
from windlass_api.crd.schema import crd
from windlass_deepspeed import flags as deepspeed_flags
from windlass_operator.errors import UserError
from windlass_testbed.cases import every_case

PIECE = "podTemplate.spec."  # below it each leaf is Kubernetes' own: it is changed to what its schema allows
SAMPLES = ("a", "x", "/a", "A", "a.b", "v1", "Memory")
DEEPSPEED = [path for path in CHANGES if path not in NOT_DEEPSPEED and path != "image.family"]
VLLM = {path: row for path, row in CHANGES.items() if path != "image.family"}
NODE = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(8)))
FILES = ModelFiles("/data/model", model_type="qwen2", max_model_len=131072, attention_heads=28)


def leaves(node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of all values in a schema: an object's fields, a list's rows where these are objects."""
    if node.get("type") == "object" and "properties" in node:
        for name, child in node["properties"].items():
            yield from leaves(child, f"{path}.{name}" if path else name)
    elif node.get("type") == "array" and node["items"].get("type") == "object":
        yield from leaves(node["items"], f"{path}.[]")
    else:
        yield path


def spec_leaves() -> list[str]:
    return list(leaves(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]))


def smallest(node: dict[str, Any]) -> Any:
    """The least that the schema takes, with all that is required."""
    if "enum" in node:
        return node["enum"][0]
    if node.get("x-kubernetes-int-or-string"):
        return 7
    kind = node["type"]
    if kind == "object" and "properties" in node:
        return {name: smallest(node["properties"][name]) for name in node.get("required", ())}
    if kind == "object":
        return {"a": smallest(node["additionalProperties"])}
    if kind == "array":
        return [smallest(node["items"])]
    if kind == "string":
        return next(text for text in SAMPLES if re.fullmatch(node.get("pattern", ".*"), text))
    return True if kind == "boolean" else node["minimum"]


def piece_with(node: dict[str, Any], steps: list[str]) -> Any:
    """The least around a leaf, and the leaf."""
    if not steps:
        return smallest(node)
    step, *rest = steps
    if step == "[]":
        return [piece_with(node["items"], rest)]
    return {**smallest(node), step: piece_with(node["properties"][step], rest)}


def without(piece: Any, steps: list[str]) -> Any:
    """The same piece without the leaf, or with another text where it is required."""
    step, *rest = steps
    if step == "[]":
        return [without(piece[0], rest)]
    if rest:
        return {**piece, step: without(piece[step], rest)}
    return {key: value for key, value in piece.items() if key != step}


def test_every_leaf_of_the_spec_has_a_row() -> None:
    """A new field comes with its row here, or with a reason why it changes nothing."""
    named = [path for path in spec_leaves() if not path.startswith(PIECE)]
    assert sorted(named) == sorted([*CHANGES, *INERT])
    assert len(INERT) <= 5


@every_case("path", DEEPSPEED)
def test_a_changed_leaf_changes_an_object_of_deepspeed_too(path: str) -> None:
    """Whatever admission does not refuse for that family; its own parser takes the words."""
    around, value = CHANGES[path]
    before = merged({**BASE, "image": {"family": "deepspeed"}}, around)
    after = changed(before, path, value)
    assert json.dumps(rendered(before)) != json.dumps(rendered(after))
    for container in serving_containers(after):
        if container.get("command") == ["windlass-deepspeed"]:
            deepspeed_flags.resolve(tuple(container["args"][1:]), {})


@pytest.mark.parametrize(
    ("family", "gpus", "image"),
    [
        ("vllm", 1, "windlass/server:1"),
        ("vllm", 0, "windlass/server-cpu:1"),
        ("deepspeed", 1, "windlass/deepspeed-gpu:1"),
        ("deepspeed", 0, "windlass/deepspeed:1"),
    ],
)
def test_family_and_hardware_choose_the_image(family: str, gpus: int, image: str) -> None:
    """A service on the CPU gets no image for GPUs, nor the other way round."""
    spec = {**BASE, "image": {"family": family}, "resources": {"gpus": gpus}}
    assert {one["image"] for one in serving_containers(spec)} == {SETTINGS.operator_image, image}


def test_what_deepspeed_refuses_is_what_admission_names() -> None:
    """Each field of spec.engine that is left out above stands in the resource's rule."""
    ruled = {f"engine.{name}" for name in VLLM_ONLY}
    objects = ("engine.speculation", "engine.prefixOffload")  # their leaves are changed
    named = {".".join(path.split(".")[:2]) if path.startswith(objects) else path for path in NOT_DEEPSPEED}
    assert ruled == {path for path in named if path.startswith("engine.")} - {
        "engine.quantization", "engine.lookahead.enabled", "engine.lookahead.speculativeTokens",
    }  # fmt: skip
    assert set(CHANGES) >= NOT_DEEPSPEED - set(objects)


@every_case("path", CHANGES)
def test_a_changed_leaf_changes_an_object(path: str) -> None:
    """Alone, among the surroundings that it needs."""
    around, value = CHANGES[path]
    before = merged(BASE, around)
    assert rendered(before) == rendered(before)
    assert json.dumps(rendered(before)) != json.dumps(rendered(changed(before, path, value)))


def test_every_leaf_of_a_piece_of_a_pod_reaches_the_pod() -> None:
    """Written alone among what it needs, it is rendered; left out, it is not."""
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema = spec["properties"]["podTemplate"]["properties"]["spec"]
    paths = [path.removeprefix(PIECE).split(".") for path in spec_leaves() if path.startswith(PIECE)]
    assert len(paths) > 150
    for steps in paths:
        piece = piece_with(schema, steps)
        pods = json.dumps(rendered(merged(BASE, {"podTemplate": {"spec": piece}})))
        kept = without(piece, steps)
        try:
            other = json.dumps(rendered(merged(BASE, {"podTemplate": {"spec": kept}})))
        except UserError:  # a required leaf; that it is asked for is an effect
            continue
        assert pods != other, steps


@every_case("path", VLLM)
def test_every_command_line_is_one_that_the_server_takes(path: str) -> None:
    """The arguments and variables of the serving container, by the real parser."""
    around, value = CHANGES[path]
    for container in serving_containers(changed(merged(BASE, around), path, value)):
        if container.get("command") == ["windlass"]:
            variables = {row["name"]: row["value"] for row in container["env"] if "value" in row}
            for looked_at in ("LORA_MODULES", "MERGE_LORA"):  # at files; adapters have their own tests
                variables.pop(looked_at, None)
            command, *words = container["args"]
            assert command == "run"
            resolve(tuple(words), variables, FILES, NODE)
