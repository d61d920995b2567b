"""The size of a spec: one CEL rule that the API server runs, made from the schema, and the schema's own depth.

A bound for each field is not a bound for all: eight containers of 128 variables of 32,768 characters keep every one. So
the rule adds up the texts of the whole spec. Pure; `schema.py` hangs it on `spec`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass_api.crd.rules import Rule

SPEC_CHARACTERS_MAX = 131_072  # of all texts, keys of maps and SHELL for each row; etcd takes 1.5 MiB a request
SHELL = 16  # characters that a row or an entry counts beside its texts
# Required of new resources alone: a stored one may lack the field, and a rule that asks for it would then fail.
LATER_REQUIRED = frozenset({"key"})
# Names that the expression language has for itself; Kubernetes writes them so (KEP-2876).
RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "
    "while".split()
)

Schema = dict[str, Any]


def size_rule(spec: Schema) -> Rule:
    """The rule for a spec of this schema."""
    return Rule(
        f"{_sum(spec, 'self', 0)} <= {SPEC_CHARACTERS_MAX}",
        f"spec must have at most {SPEC_CHARACTERS_MAX} characters in all: put long texts into a ConfigMap, a Secret "
        "or the image",
    )


def depth_of(schema: Schema) -> int:
    """How many objects and lists lie inside each other at most."""
    below = [
        *schema.get("properties", {}).values(),
        *(schema[word] for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)),
    ]
    return 1 + max(map(depth_of, below)) if below else 0


def _sum(node: Schema, place: str, level: int) -> str:
    """An expression for the characters of an object at this place."""
    return "[0, " + ", ".join(_terms(node, place, level)) + "].sum()"


def _terms(node: Schema, place: str, level: int) -> Iterator[str]:
    for name, child in node["properties"].items():
        here = f"{place}.{_escaped(name)}"
        size = _size(child, here, level)
        required = name in node.get("required", ()) and name not in LATER_REQUIRED
        if size and (required or _filled(child)):
            yield size
        elif size:
            yield f"(has({here}) ? {size} : 0)"


def _filled(child: Schema) -> bool:
    """Whether the API server fills the field in."""
    return "default" in child


def _size(node: Schema, place: str, level: int) -> str:
    """An expression for the characters of any value; empty where its size is a bounded few."""
    item = f"i{level}"
    if isinstance(node.get("additionalProperties"), dict):
        value = _size(node["additionalProperties"], f"{place}[{item}]", level + 1) or "0"
        return f"{place}.map({item}, {item}.size() + {SHELL} + {value}).sum()"
    if isinstance(node.get("items"), dict):
        value = _size(node["items"], item, level + 1) or "0"
        return f"{place}.map({item}, {SHELL} + {value}).sum()"
    if "properties" in node:
        return _sum(node, place, level) if any(True for _ in _terms(node, place, level)) else ""
    return f"{place}.size()" if node.get("type") == "string" and "enum" not in node else ""


def _escaped(name: str) -> str:
    return f"__{name}__" if name in RESERVED else name
