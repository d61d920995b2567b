"""The published JSON schema: valid, current, good for forms, and of one mind with the examples."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from windlass_api.crd.v1alpha1 import KIND
from windlass_client import schema
from windlass_testbed.cases import every_case

REPOSITORY = Path(__file__).parents[4]
PUBLISHED = REPOSITORY / "docs/reference/llmservice.schema.json"
EXAMPLES = [
    (path.name, document)
    for path in sorted((REPOSITORY / "examples").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document["kind"] == KIND
]
SCHEMA = schema.json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def fields(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from fields(node["items"], f"{path}[]")


SPEC = dict(fields(SCHEMA["properties"]["spec"], ".spec"))


def test_the_published_file_is_what_the_models_say():
    """WINDLASS_GOLDEN=write rewrites it."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PUBLISHED.write_text(schema.to_text())
    assert PUBLISHED.read_text() == schema.to_text()


def test_it_is_a_schema_of_its_draft():
    """jsonschema's own meta-schema finds nothing."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@every_case("path, node", SPEC.items())
def test_a_form_builder_finds_a_description_and_a_kind_for_each_field(path, node):
    """And no word of Kubernetes' own structural dialect but our rules."""
    assert node["description"]
    assert {"type", "anyOf", "enum", "const"} & node.keys()
    assert not {key for key in node if key.startswith("x-kubernetes")} - {"x-kubernetes-validations"}


@pytest.mark.parametrize("document", [row[1] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES])
def test_an_example_is_valid(document):
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


def test_there_is_an_example():
    assert EXAMPLES


def edit(**changes: object) -> dict[str, Any]:
    document = copy.deepcopy(EXAMPLES[0][1])
    for path, value in changes.items():
        *steps, last = path.split("__")
        node = document
        for step in steps:
            node = node.setdefault(step, {})
        node[last] = value
    return document


WRONG = {
    "misspelt field": edit(spec__replica=2),
    "out of bounds": edit(spec__replicas=-1),
    "unknown choice": edit(spec__engine={"dtype": "int8"}),
    "two sources": edit(spec__model__source={"pvc": {"claimName": "a"}, "hostPath": {"path": "/a"}}),
    "no source": edit(spec__model__source={}),
    "quantity": edit(spec__resources={"memory": "lots"}),
    "name": edit(metadata__name="Has.Dots"),
    "other kind": edit(kind="Pod"),
    "a pod's field that could raise a privilege": edit(spec__podTemplate={"spec": {"hostNetwork": True}}),
}


@pytest.mark.parametrize("document", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_document_is_refused(document):
    assert not VALIDATOR.is_valid(document)


RIGHT = {
    "quantity as number": edit(spec__resources={"cpu": 4, "memory": "64Gi"}),
    "a piece of a pod": edit(spec__podTemplate={"spec": {"runtimeClassName": "nvidia"}}),
    "labels": edit(metadata__labels={"team": "a"}),
}


@pytest.mark.parametrize("document", RIGHT.values(), ids=RIGHT.keys())
def test_a_right_document_passes(document):
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


def test_defaults_and_bounds_are_there():
    """What a form shows before anything is typed."""
    assert SPEC[".spec.replicas"]["default"] == 1
    assert {"minimum", "maximum"} <= SPEC[".spec.replicas"].keys()
    assert SPEC[".spec.image.family"]["enum"] == ["vllm", "deepspeed"]
    assert json.loads(schema.to_text()) == SCHEMA
