"""Answers for programs: one JSON or YAML document, which a terminal may show as well."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from windlass_kubectl.harmless import IN_TEXT, quoted


def emit(document: Mapping[str, object], output: str) -> str:
    """The document's text; a YAML document begins with its own mark, so that a stream of them can be read."""
    if output == "yaml":
        return f"---\n{as_yaml(document).rstrip()}"
    return as_json(document, indent=2)


def as_json(document: object, indent: int | None = None) -> str:
    """JSON in which no character acts on a terminal."""
    return quoted(json.dumps(document, ensure_ascii=False, indent=indent))


def as_yaml(document: object, width: int = 120) -> str:
    """YAML in which no character acts on a terminal; text with such characters is written in ASCII escapes."""
    plain = document if isinstance(document, list) else dict(document) if isinstance(document, Mapping) else document
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=width)
    if IN_TEXT.search(text):
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, width=width)
    return text
