"""Writes the CRD: pydantic's JSON schema rewritten into the structural schema that Kubernetes accepts.

`python -m windlass_api.crd.schema` writes crds/, `--check` says whether what lies there is still what the models
say. All but `main` is a function of values.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from windlass_api.crd.size import size_rule
from windlass_api.crd.v1alpha1 import (
    CATEGORIES,
    GROUP,
    KIND,
    PLURAL,
    SHORT_NAMES,
    SINGULAR,
    VERSION,
    LLMService,
)

Schema: TypeAlias = dict[str, Any]

CRD_NAME = f"{PLURAL}.{GROUP}"
CRD_FILE = Path("crds") / f"{CRD_NAME}.yaml"
HEADER = "# Generated from windlass_api.crd.v1alpha1 by `make crds`; change the models, not this file.\n"
UNSTRUCTURAL = ("title", "additionalProperties", "$defs")
INT32_MAX = 2**31 - 1
VALIDATIONS = "x-kubernetes-validations"

READY = '.status.conditions[?(@.type=="Ready")]'
# name, type, JSONPath, shown only by `-o wide`
COLUMNS = (
    ("Model", "string", ".spec.model.id", False),
    ("Ready", "string", ".status.ready", False),
    ("Up-to-date", "integer", ".status.updatedReplicas", False),
    ("Status", "string", f"{READY}.reason", False),
    ("GPUs", "integer", ".status.inForce.gpus", False),
    ("TP", "integer", ".status.inForce.tp", False),
    ("Age", "date", ".metadata.creationTimestamp", False),
    ("Context", "integer", ".status.inForce.maxModelLen", True),
    ("Quant", "string", ".status.inForce.quantization", True),
    ("Address", "string", ".status.addresses[0].url", True),
    ("Message", "string", f"{READY}.message", True),
)


def crd() -> Schema:
    """The whole CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME, "labels": {"app.kubernetes.io/part-of": "windlass"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": list(SHORT_NAMES),
                "categories": list(CATEGORIES),
            },
            "versions": [_version()],
        },
    }


def to_yaml(document: Schema) -> str:
    """The file's text; no anchors, so that every reader shows every list where it stands."""
    return HEADER + yaml.dump(document, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


def structural(model: Schema) -> Schema:
    """Pydantic's JSON schema of a model as a structural schema; pure, and the input is left as it was."""
    definitions: Schema = model.get("$defs", {})
    out: Schema = _rewrite(model, definitions)
    return out


def _version() -> Schema:
    columns = [
        {"name": name, "type": kind, "jsonPath": path, **({"priority": 1} if wide else {})}
        for name, kind, path, wide in COLUMNS
    ]
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": _root()},
    }


def _root() -> Schema:
    root = structural(LLMService.model_json_schema(by_alias=True))
    properties = root["properties"]
    # Kubernetes owns these three; a CRD may only say that they are there.
    properties["apiVersion"] = {"type": "string", "description": "apiVersion is the resource's group and version."}
    properties["kind"] = {"type": "string", "description": "kind is LLMService."}
    # A name's length is said again, because the API server estimates a rule's cost from declared lengths alone.
    properties["metadata"] = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}}
    # The operator alone writes the status, whole: a default there would be a second author.
    properties["status"] = _without_defaults(properties["status"])
    spec = properties["spec"]
    spec[VALIDATIONS] = [*spec[VALIDATIONS], size_rule(spec).to_dict()]
    return root


def _rewrite(node: Schema, definitions: Schema) -> Schema:
    """One schema node, rewritten by one rule after the other."""
    for rule in (_inline, _single_choice, _enum_of_const, _plain_words):
        node = rule(node, definitions)
    if "properties" in node:
        node["properties"] = {
            name: _optional_object(_rewrite(child, definitions), name in node.get("required", []))
            for name, child in node["properties"].items()
        }
    if isinstance(node.get("items"), dict):
        node["items"] = _rewrite(node["items"], definitions)
    return _sized_integer(node)


def _inline(node: Schema, definitions: Schema) -> Schema:
    if "$ref" not in node:
        return dict(node)
    target = definitions[str(node["$ref"]).rsplit("/", 1)[-1]]
    return _inline({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)


def _single_choice(node: Schema, definitions: Schema) -> Schema:
    """`X | None` is X that may be left out: Kubernetes has no null here."""
    choices = [choice for choice in node.get("anyOf", []) if choice.get("type") != "null"]
    if len(choices) != 1:
        return node
    outer = {key: value for key, value in node.items() if key != "anyOf"}
    return _inline({**choices[0], **outer}, definitions)


def _enum_of_const(node: Schema, _: Schema) -> Schema:
    if "const" not in node:
        return node
    return {**{key: value for key, value in node.items() if key != "const"}, "enum": [node["const"]]}


def _plain_words(node: Schema, _: Schema) -> Schema:
    dropped = {*UNSTRUCTURAL, *(("default",) if node.get("default", "") is None else ())}
    if isinstance(node.get("additionalProperties"), dict):  # a map keeps what its values are
        dropped.discard("additionalProperties")
    return {key: value for key, value in node.items() if key not in dropped}


def _optional_object(node: Schema, required: bool) -> Schema:
    """An object with inner defaults gets `{}`: the API server fills inner defaults only where the object exists."""
    inner = node.get("properties", {}).values()
    if required or "properties" not in node or not any("default" in child for child in inner):
        return node
    return node if node.get("required") else {**node, "default": {}}


def _sized_integer(node: Schema) -> Schema:
    if node.get("type") != "integer" or "format" in node:
        return node
    return {**node, "format": "int32" if node.get("maximum", INT32_MAX + 1) <= INT32_MAX else "int64"}


def _without_defaults(node: Schema) -> Schema:
    out = {key: value for key, value in node.items() if key != "default"}
    if "properties" in out:
        out["properties"] = {name: _without_defaults(child) for name, child in out["properties"].items()}
    if isinstance(out.get("items"), dict):
        out["items"] = _without_defaults(out["items"])
    return out


class _Plain(yaml.SafeDumper):
    """YAML without anchors."""

    def ignore_aliases(self, _: Any) -> bool:  # noqa: ANN401 (the base class's signature)
        return True


def main(arguments: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    """Write the CRD file, or with --check compare it and exit 1 when it differs."""
    parser = argparse.ArgumentParser(prog="python -m windlass_api.crd.schema", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--out", type=Path, default=CRD_FILE, help=f"the file (default: {CRD_FILE})")
    options = parser.parse_args(arguments)
    text = to_yaml(crd())
    if not options.check:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
        say(f"{options.out}: {len(text.encode())} bytes")
        return 0
    old = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    if old == text:
        return 0
    lines = list(difflib.unified_diff(old.splitlines(), text.splitlines(), str(options.out), "the models", lineterm=""))
    say("\n".join(lines[:40]))
    say(f"{options.out} is not what the models say; run `make crds`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
