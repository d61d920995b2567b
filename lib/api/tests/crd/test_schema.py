"""The CRD that the models make: structural, described, bounded, small, and the one that is committed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from windlass_api.crd import schema
from windlass_api.crd.size import RESERVED, SPEC_CHARACTERS_MAX, depth_of, size_rule
from windlass_api.crd.status import OLDER_FIGURES
from windlass_sizing.quantization.methods import ACCEPTED, ENGINES, NAMES

COMMITTED = Path(__file__).parents[4] / schema.CRD_FILE
KUBERNETES_OWN = (".apiVersion", ".kind")  # the API server knows their one value
UNBOUNDED = (*KUBERNETES_OWN, ".status.conditions[].lastTransitionTime")  # a date
DEPTH_MAX = 14  # objects and lists inside each other, of the whole resource


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from nodes(child, f"{path}.{name}")
    for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if word in node:
            yield f"{path}{mark}", node[word]
            yield from nodes(node[word], f"{path}{mark}")


ROOT = schema.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
ALL = dict(nodes(ROOT))
NAMED = {path: node for path, node in ALL.items() if path[-1] not in "]}" and not path.startswith(".metadata")}


def test_a_field_is_described_bounded_and_plain():
    """LWS's API lint: description begins with the name, no floats, no null, bounds on numbers, lengths, list kinds."""
    for path, node in NAMED.items():
        assert node["description"].startswith(path.rsplit(".", 1)[-1] + " "), path
        assert node.get("type") != "number", path
        assert "nullable" not in node, path
        if node.get("type") == "integer":
            assert {"minimum", "maximum", "format"} <= node.keys(), path
        if node.get("type") == "array":
            assert {"maxItems", "x-kubernetes-list-type"} <= node.keys(), path


def test_a_node_is_structural():
    """Kubernetes knows none of these words in a structural schema."""
    for path, node in ALL.items():
        assert not {"$ref", "$defs", "title", "const", "allOf", "oneOf"} & node.keys(), path
        assert node.get("additionalProperties", {}) is not False, path
        assert "additionalProperties" not in node or node["maxProperties"] > 0, path
        assert "anyOf" not in node or node.get("x-kubernetes-int-or-string"), path
        assert node.get("default", "") is not None, path


def test_a_node_is_closed_and_bounded():
    """Nothing unknown is kept at any place; a text, list or map has a most, and so have a map's keys."""
    for path, node in ALL.items():
        assert "x-kubernetes-preserve-unknown-fields" not in node, path
        assert "x-kubernetes-embedded-resource" not in node, path
        kind = node.get("type", "int-or-string" if node.get("x-kubernetes-int-or-string") else "")
        if kind == "object":
            assert "properties" in node or {"additionalProperties", "maxProperties"} <= node.keys(), path
        if "additionalProperties" in node:
            assert any("key.size() <= " in row["rule"] for row in node["x-kubernetes-validations"]), path
        if kind == "array":
            assert {"items", "maxItems"} <= node.keys(), path
        if kind in ("string", "int-or-string") and path not in UNBOUNDED:
            assert "maxLength" in node or "enum" in node, path
        assert kind in ("object", "array", "string", "integer", "boolean", "int-or-string"), path


def test_the_resource_has_a_depth():
    """What the API server stores ends there, so what reads it needs no limit of its own to live."""
    assert depth_of(ROOT) <= DEPTH_MAX


def test_below_pod_template_nothing_is_filled_in():
    """A default there would win over what the operator renders."""
    assert not [path for path, node in ALL.items() if path.startswith(".spec.podTemplate.") and "default" in node]


def test_the_size_rule_counts_every_text_of_the_spec():
    """Each text, list and map of the schema is in the expression; of enums, numbers and quantities a row counts."""
    rule = size_rule(ROOT["properties"]["spec"]).rule
    texts = [path for path, node in ALL.items() if path.startswith(".spec.") and node.get("type") == "string"]
    free = [path for path in texts if "enum" not in ALL[path] and path[-1] not in "]}"]
    assert len(free) > 100
    for path in free:
        name = path.rsplit(".", 1)[-1]
        assert f".{f'__{name}__' if name in RESERVED else name}.size()" in rule, path
    assert rule.endswith(f"<= {SPEC_CHARACTERS_MAX}")


def test_every_pattern_matches_whole_texts():
    """CEL's and the schema's expressions are RE2: $ is the end of the text; one that is not anchored is listed here."""
    searched = {"(?i)(^|[-_./])(gptq|awq)($|[-_./0-9])"}
    rules = [row["rule"] for node in (ROOT, *ALL.values()) for row in node.get("x-kubernetes-validations", ())]
    patterns = {node["pattern"] for node in ALL.values() if "pattern" in node}
    patterns |= {found for rule in rules for found in re.findall(r"matches\('(.*?)'\)", rule)}
    assert len(patterns) > 10
    for pattern in patterns - searched:
        assert pattern.startswith("^") and pattern.endswith("$") and "(?m" not in pattern, pattern


DESCRIBED_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^A-Za-z]+")
PRODUCTS = ("gooseFSx",)  # spelled as their makers do


def test_kubectl_describe_splits_a_name_into_words():
    """Describe begins a word at each capital: `kvGiB` reads "Kv Gi B"."""
    names = {path.rsplit(".", 1)[-1] for path in NAMED} - {*PRODUCTS, *OLDER_FIGURES}
    assert {name for name in names if any(len(word) == 1 for word in DESCRIBED_WORD.findall(name))} == set()


def test_the_status_has_no_defaults():
    """The operator alone writes it."""
    assert not [path for path, node in ALL.items() if path.startswith(".status") and "default" in node]


def test_a_condition_has_what_kubernetes_requires_of_one():
    """metav1.Condition requires these five; observedGeneration may be left out."""
    condition = ALL[".status.conditions[]"]
    assert set(condition["required"]) == {"type", "status", "reason", "message", "lastTransitionTime"}
    assert set(condition["properties"]) - set(condition["required"]) == {"observedGeneration"}


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
    assert len(json.dumps(schema.crd(), separators=(",", ":"))) < 180_000
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
    assert len(set(ACCEPTED)) == len(ACCEPTED)
    assert ACCEPTED[: len(NAMES)] == ("fp8", "ifq", "ifq_nf4", "smoothquant", "auto", "none")
    assert {"awq", "gptq", "gptq_marlin", "compressed-tensors"} <= set(ENGINES)
    assert not {"bitsandbytes", "gguf", "fbgemm_fp8", "fp_quant"} & set(ACCEPTED)
