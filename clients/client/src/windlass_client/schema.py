"""The JSON Schema (draft 2020-12) of the resource, for form builders, editors and checks before anything is sent.

Made from the CRD's own structural schema, so that both always say the same. It is written into
docs/reference/llmservice.schema.json; the test of this module keeps that file current (WINDLASS_GOLDEN=write).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from windlass_api.crd import schema as crd_schema
from windlass_api.crd.v1alpha1 import API_VERSION, KIND

Schema = dict[str, Any]
# Kubernetes' own words that a form builder has no use for; its validation rules stay: they hold our sentences.
KUBERNETES_ONLY = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys")
EXACTLY_ONE = "exactly one of"
RULE_SHOWN_MAX = 2000  # characters; the longest rule written by hand has about 1,000
METADATA = {
    "type": "object",
    "description": "metadata names the service.",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 50,
            "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "description": "name is the service's name: lower-case letters, digits and '-'.",
        },
        "namespace": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            "description": "namespace is where the service lives; left out: the caller's own.",
        },
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 63},
            "description": "labels are names and values to select by.",
        },
        "annotations": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "annotations are free text for people and programs.",
        },
    },
}


@cache
def json_schema() -> Schema:
    """The schema of a whole LLMService; treat it as read-only."""
    version = crd_schema.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root = _node(version)
    properties = {
        **root["properties"],
        "apiVersion": {"const": API_VERSION, "description": "apiVersion is the resource's group and version."},
        "kind": {"const": KIND, "description": f"kind is {KIND}."},
        "metadata": METADATA,
    }
    properties["status"] = {**properties["status"], "readOnly": True}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:windlass:llmservice:v1alpha1",
        "title": KIND,
        "description": root["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {name: properties[name] for name in ("apiVersion", "kind", "metadata", "spec", "status")},
        "additionalProperties": False,
        **({"x-kubernetes-validations": root[RULES]} if RULES in root else {}),
    }


RULES = "x-kubernetes-validations"


def _node(node: Schema) -> Schema:
    """One node of the structural schema in JSON Schema's words."""
    out = {key: value for key, value in node.items() if key not in KUBERNETES_ONLY}
    if out.pop("x-kubernetes-int-or-string", False):
        out = _quantity(out)
    if RULES in out:
        out[RULES] = [_row(row) for row in out[RULES]]
    if isinstance(out.get("items"), dict):
        out["items"] = _node(out["items"])
    if "properties" in out:
        out["properties"] = {name: _node(child) for name, child in out["properties"].items()}
        open_ended = out.pop("x-kubernetes-preserve-unknown-fields", False)
        out["additionalProperties"] = bool(open_ended)
        if any(f"needs {EXACTLY_ONE}" in row["message"] for row in out.get(RULES, ()) if not _of_a_part(row)):
            out |= {"minProperties": 1, "maxProperties": 1}
    else:
        out.pop("x-kubernetes-preserve-unknown-fields", None)
    return out


def _row(rule: Schema) -> Schema:
    """A rule that is generated from the schema keeps its sentence alone: its expression is longer than all others."""
    return rule if len(rule["rule"]) <= RULE_SHOWN_MAX else {"message": rule["message"]}


def _of_a_part(rule: Schema) -> bool:
    """A rule that speaks of the members of one of the node's fields, not of the node's own."""
    return str(rule.get("rule", "")).startswith("!has(")


def _quantity(node: Schema) -> Schema:
    """A number or a text like 4Gi; the pattern holds for the text only."""
    pattern = node.pop("pattern", None)
    text = {"type": "string", **({"pattern": pattern} if pattern else {})}
    return {**node, "anyOf": [{"type": "integer", "minimum": 0}, text]}


def to_text() -> str:
    """The published file: in one line, since programs read it."""
    return json.dumps(json_schema(), separators=(",", ":"), ensure_ascii=False) + "\n"
