"""The change from one document to another as a JSON merge patch (RFC 7386). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARTS = ("labels", "annotations")


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What makes `new` of `old`; None deletes a key, and a list is written whole."""
    change: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_patch(before, value)
            if inner:
                change[key] = inner
        elif key not in old or value != before or isinstance(value, bool) != isinstance(before, bool):
            change[key] = value
    return change


def edit(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The patch for spec, and for labels and annotations where the wanted document has them."""
    change: dict[str, Any] = {"spec": merge_patch(_part(stored, "spec"), _part(wanted, "spec"))}
    metadata = {
        part: merge_patch(_part(_part(stored, "metadata"), part), _part(_part(wanted, "metadata"), part))
        for part in PARTS
        if part in _part(wanted, "metadata")
    }
    if any(metadata.values()):
        change["metadata"] = {part: inner for part, inner in metadata.items() if inner}
    return change


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
