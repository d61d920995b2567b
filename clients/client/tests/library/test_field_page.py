"""docs/reference/llmservice.md is printed from the models; WINDLASS_GOLDEN=write rewrites it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windlass_client.schema import json_schema

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "llmservice.md"
HEAD = """\
# LLMService

<!-- Printed from the models: WINDLASS_GOLDEN=write pytest clients/client/tests/library/test_field_page.py -->

Every field of `serving.windlass.dev/v1alpha1` LLMService. For programs:
[llmservice.schema.json](llmservice.schema.json), JSON Schema draft 2020-12. In the terminal: `kubectl explain
llmservice.spec --recursive`. What is left out and has no default is planned from the model and the cluster's GPUs.
**Bold** fields are required where the object around them is given.
"""
TABLE = "| field | meaning | type | default | bounds |\n| --- | --- | --- | --- | --- |\n"
ROWS_MAX = 200  # rows of a table; a longer one is split, since its longest name sets the width of all
RULES = "x-kubernetes-validations"
BOUNDS = (
    ("minimum", "≥ {}"),
    ("maximum", "≤ {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} rows"),
    ("maxItems", "at most {} rows"),
    ("maxProperties", "at most {} entries"),
    ("pattern", "`{}`"),
)


def kind(node: dict[str, Any]) -> str:
    if "anyOf" in node:
        return "quantity"
    if "enum" in node:
        return ", ".join(f"`{value}`" if value else '`""`' for value in node["enum"])
    if node["type"] == "array":
        return f"list of {kind(node['items'])}"
    if node["type"] == "object" and "additionalProperties" in node and "properties" not in node:
        return "map of text"
    return {"integer": "whole number", "boolean": "true or false", "string": "text"}.get(node["type"], node["type"])


def cell(text: str) -> str:
    return text.replace("|", "\\|") or "–"


def default(node: dict[str, Any]) -> str:
    if "default" not in node or node["default"] in ({}, []):
        return ""
    value = node["default"]
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else "empty"


def bounds(node: dict[str, Any]) -> str:
    inner = node["items"] if node.get("type") == "array" else {}
    told = [words.format(node[key]) for key, words in BOUNDS if key in node]
    return "; ".join(told + [f"each {words.format(inner[key])}" for key, words in BOUNDS if key in inner])


def fields(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}"
        yield here, child, name in node.get("required", [])
        yield from fields(child, here)
        if isinstance(child.get("items"), dict):
            yield from fields(child["items"], f"{here}[]")


def line(path: str, node: dict[str, Any], required: bool) -> str:
    name = path.rsplit(".", 1)[-1]
    meaning = node["description"].removeprefix(f"{name} ")
    shown = f"**`{path}`**" if required else f"`{path}`"
    return "| " + " | ".join(map(cell, (shown, meaning, kind(node), default(node), bounds(node)))) + " |\n"


def heading(path: str) -> str:
    """The last name first where the path is long: the site's table of contents cuts its end off."""
    around, _, name = path.rpartition(".")
    return f"`{path}`" if path.count(".") < 3 else f"`{name}` of `{around}`"


def tables(node: dict[str, Any], path: str, level: str = "##") -> Iterator[str]:
    """A table of the direct fields, then one for each that has fields of its own, or several where it has many."""
    required = node.get("required", [])
    own = "".join(line(f"{path}.{name}", child, name in required) for name, child in node["properties"].items())
    yield f"\n{level} {heading(path)}\n\n{node['description']}\n\n{TABLE}{own}"
    for name, child in node["properties"].items():
        item = isinstance(child.get("items"), dict)
        inner = (child["items"] | {"description": child["description"]}) if item else child
        here = f"{path}.{name}[]" if item else f"{path}.{name}"
        rows = [line(*row) for row in fields(inner, here)]
        if len(rows) > ROWS_MAX:
            yield from tables(inner, here, "###")
        elif rows:
            yield f"\n### {heading(here)}\n\n{child['description']}\n\n{TABLE}{''.join(rows)}"


def rules(node: dict[str, Any]) -> Iterator[str]:
    yield from (str(row["message"]) for row in node.get(RULES, ()))
    for child in node.get("properties", {}).values():
        yield from rules(child)
    if isinstance(node.get("items"), dict):
        yield from rules(node["items"])


def page() -> str:
    root = json_schema()
    parts = [HEAD]
    for part in ("spec", "status"):
        parts += tables(root["properties"][part], part)
    told = "".join(f"- {words}\n" for words in dict.fromkeys(rules(root)))
    parts.append(f"\n## What the API server refuses\n\nBeside the bounds above, in these words:\n\n{told}")
    return "".join(parts)


def test_the_page_is_what_the_models_say():
    """A field that is added to the models is in the docs, or this fails."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
