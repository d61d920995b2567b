"""The first key of a service's key files, for a client that has the files: `windlass bench serve --token-file`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from windlass.front import keys
from windlass.front.key_document import KeyDocumentError, is_document, parse


def first_key(path: Path) -> str:
    """Of the file, or of the first file of the folder that has one; a Secret's folder has hidden files beside."""
    for file in sorted(one for one in path.iterdir() if not one.name.startswith(".")) if path.is_dir() else [path]:
        if found := _of_file(file):
            return found
    raise KeyDocumentError("has no key; name a file with one key on a line, or a service's key document")


def _of_file(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if not is_document(path.name, text):
        return next(iter(keys.lines(text)), "")
    if not parse(text):
        return ""
    first: Any = yaml.safe_load(text)["keys"][0]["key"]
    return str(first[0] if isinstance(first, list) else first)
