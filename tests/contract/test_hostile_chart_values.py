"""Texts in values that would change a manifest if a template wrote them as they are: helm refuses, or they stay texts.

`WINDLASS_ATTACK_LONG` tries all of them.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator
from itertools import zip_longest
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
        "crds": {"enabled": False},
        "console": {"enabled": True, "ingress": {"enabled": True, "host": "h.example"}},
        "metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboard": {"enabled": True}},
        "tracing": {"endpoint": "http://collector:4317"},
    },
    "windlass-license-server": {},
}
"""Values with which each chart writes all of its objects, but the CRD: 320 kB for helm, and no text of the values."""

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


def same_objects(one: str, other: str) -> bool:
    """Whether two manifests have the same objects but for texts; what is written alike is not read: it is long."""
    pairs = zip_longest(one.split("\n---\n"), other.split("\n---\n"), fillvalue="")
    return all(a == b or shape(documents(a)) == shape(documents(b)) for a, b in pairs)


def test_no_text_of_the_values_is_in_the_crd() -> None:
    template = (CHARTS / "windlass/templates/crds.yaml").read_text()
    used = re.findall(r"\binclude\b|\btpl\b|\.(?:Values|Release|Chart|Capabilities)[.\w]*", template)
    assert set(used) == {".Values.crds.enabled", ".Values.crds.keep"}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("chart", EVERYTHING)
def test_a_text_stays_a_text(helm: Helm, chart: str, text: str) -> None:
    folder = CHARTS / chart
    values = merged(yaml.safe_load((folder / "values.yaml").read_text()), EVERYTHING[chart])
    wrong = []
    for path in places(values):
        hostile = helm("template", "windlass", str(folder), values=with_text(values, path, text))
        if hostile.returncode:
            wrong += [] if any(words in hostile.stderr for words in WORDS) else [(path, hostile.stderr)]
            continue
        plain = helm("template", "windlass", str(folder), values=with_text(values, path, "plain"))
        if plain.returncode == 0 and not same_objects(hostile.stdout, plain.stdout):
            wrong.append((path, "changes the objects"))
    assert wrong == []
