"""Texts in values that would change a manifest if a template wrote them as they are: helm refuses, or they stay texts.

`WINDLASS_ATTACK_LONG` tries all of them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Helm, documents

CHARTS = Path(__file__).resolve().parents[2] / "charts"
FEW = ("x\n        hostNetwork: true\n", "*x", "'\"")
MORE = ("{{ .Release.Name }}", "a: {b: 1}", "- x", "&a x", "|", "%YAML", "\u2028", "x # y", "true", "~", "1e3")
TEXTS = FEW + MORE if os.environ.get("WINDLASS_ATTACK_LONG") else FEW
WORDS = ("values don't meet the specifications", "execution error at")
"""With which helm refuses values: by the schema, or by a sentence of the chart's own."""
EVERYTHING: dict[str, dict[str, Any]] = {
    "windlass": {
        "console": {"enabled": True, "ingress": {"enabled": True, "host": "h.example"}},
        "metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboard": {"enabled": True}},
        "tracing": {"endpoint": "http://collector:4317"},
    },
    "windlass-license-server": {},
}
"""Values with which each chart writes all of its objects."""

Keys = tuple[str, ...]


def merged(below: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {key: merged(below[key], value) if isinstance(value, dict) else value for key, value in over.items()}
    return {**below, **both}


def places(values: object, path: Keys = ()) -> Iterator[Keys]:
    """Where a text may stand: a text, an empty list or an empty map."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from places(value, (*path, key))
    elif isinstance(values, str) or values in ([], {}):
        yield path


def with_text(values: dict[str, Any], path: Keys, text: str) -> dict[str, Any]:
    """The values with the text there: as it is, as the one item, or as a key and its value."""
    changed = copy.deepcopy(values)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    before = inner[path[-1]]
    inner[path[-1]] = text if isinstance(before, str) else [text] if before == [] else {text: text}
    return changed


def shape(value: object) -> object:
    """The objects without their texts: what a text must not change."""
    if isinstance(value, dict):
        return sorted((shape(one) for one in value.values()), key=str)
    return [shape(one) for one in value] if isinstance(value, list) else isinstance(value, str)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("chart", EVERYTHING)
def test_a_text_stays_a_text(helm: Helm, chart: str, text: str) -> None:
    folder = CHARTS / chart
    values = merged(yaml.safe_load((folder / "values.yaml").read_text()), EVERYTHING[chart])
    wrong = []
    for path in places(values):
        hostile, plain = (
            helm("template", "windlass", str(folder), values=with_text(values, path, one)) for one in (text, "plain")
        )
        if hostile.returncode:
            wrong += [] if any(words in hostile.stderr for words in WORDS) else [(path, hostile.stderr)]
        elif plain.returncode == 0 and shape(documents(hostile.stdout)) != shape(documents(plain.stdout)):
            wrong.append((path, "changes the objects"))
    assert wrong == []
