"""The CRD that the models make: structural, described, bounded, small, and the one that is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass_operator.api import schema
from windlass_operator.api.quantization import OWN, QUANTIZATIONS, VLLM_OWN

COMMITTED = Path(__file__).parents[3] / schema.CRD_FILE
LENGTH_FREE = ("apiVersion", "kind", "cpu", "memory", "lastTransitionTime")


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from nodes(child, f"{path}.{name}")
    if "items" in node:
        yield f"{path}[]", node["items"]
        yield from nodes(node["items"], f"{path}[]")


ROOT = schema.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
ALL = dict(nodes(ROOT))
NAMED = {path: node for path, node in ALL.items() if not path.endswith("[]") and not path.startswith(".metadata")}


@pytest.mark.parametrize(("path", "node"), NAMED.items(), ids=NAMED.keys())
def test_a_field_is_described_bounded_and_plain(path, node):
    """LWS's API lint: description begins with the name, no floats, no null, bounds on numbers, lengths, list kinds."""
    assert node["description"].startswith(path.rsplit(".", 1)[-1] + " ")
    assert node.get("type") != "number"
    assert "nullable" not in node
    if node.get("type") == "integer":
        assert {"minimum", "maximum", "format"} <= node.keys()
    if node.get("type") == "array":
        assert {"maxItems", "x-kubernetes-list-type"} <= node.keys()
    if node.get("type") == "string" and path.rsplit(".", 1)[-1] not in LENGTH_FREE:
        assert "maxLength" in node or "enum" in node


@pytest.mark.parametrize(("path", "node"), ALL.items(), ids=ALL.keys())
def test_a_node_is_structural(path, node):
    """Kubernetes knows none of these words in a structural schema."""
    assert not {"$ref", "$defs", "title", "const", "allOf", "oneOf"} & node.keys()
    assert node.get("additionalProperties", {}) is not False
    assert "additionalProperties" not in node or node["maxProperties"] > 0
    assert "anyOf" not in node or node.get("x-kubernetes-int-or-string")
    assert node.get("default", "") is not None


def test_the_status_has_no_defaults():
    """The operator alone writes it."""
    assert not [path for path, node in ALL.items() if path.startswith(".status") and "default" in node]


def test_the_committed_file_is_what_the_models_say():
    """`make crds` was run."""
    said: list[str] = []
    assert schema.main(["--check", "--out", str(COMMITTED)], said.append) == 0, "\n".join(said)


def test_check_tells_the_difference_and_writes_nothing(tmp_path):
    """Exit 1 with the lines that differ; without --check the file is written."""
    path, said = tmp_path / "crds" / "crd.yaml", []
    assert schema.main(["--out", str(path)], said.append) == 0
    changed = path.read_text().replace("LLMService serves", "LLMService bakes")
    path.write_text(changed)
    assert schema.main(["--check", "--out", str(path)], said.append) == 1
    assert "-        description: LLMService bakes" in said[-2]
    assert said[-1].endswith("is not what the models say; run `make crds`")
    assert path.read_text() == changed


def test_the_file_is_small_and_has_no_anchors():
    """kubectl keeps the last applied object in an annotation, which has 256 KiB for everything."""
    text = schema.to_yaml(schema.crd())
    assert len(text.encode()) < 100_000
    assert yaml.safe_load(text) == schema.crd()
    assert "&id" not in text


def test_optional_choice_and_references_are_inlined():
    """`X | None` becomes X, a `$ref` its target, `const` an enum, and an object with inner defaults gets {}."""
    model = {
        "$defs": {"In": {"type": "object", "title": "In", "properties": {"a": {"default": 1, "type": "boolean"}}}},
        "type": "object",
        "properties": {
            "one": {"anyOf": [{"$ref": "#/$defs/In"}, {"type": "null"}], "default": None, "description": "one is it."},
            "two": {"const": "x", "type": "string"},
        },
    }
    inner = {"type": "object", "properties": {"a": {"default": 1, "type": "boolean"}}}
    assert schema.structural(model) == {
        "type": "object",
        "properties": {
            "one": {**inner, "description": "one is it.", "default": {}},
            "two": {"type": "string", "enum": ["x"]},
        },
    }


def test_quantization_names_are_ours_and_vllms_once_each():
    """No name stands twice, ours come first."""
    assert len(set(QUANTIZATIONS)) == len(QUANTIZATIONS)
    assert QUANTIZATIONS[: len(OWN)] == ("fp8", "ifq", "ifq_nf4", "smoothquant", "auto", "none")
    assert {"awq", "gptq", "gptq_marlin", "compressed-tensors", "bitsandbytes", "gguf"} <= set(VLLM_OWN)
