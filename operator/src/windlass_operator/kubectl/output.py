"""Answers for programs: one JSON or YAML document."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml


def emit(document: Mapping[str, object], output: str) -> str:
    """The document's text; a YAML document begins with its own mark, so that a stream of them can be read."""
    if output == "yaml":
        text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=120)
        return f"---\n{text.rstrip()}"
    return json.dumps(document, ensure_ascii=False, indent=2)
