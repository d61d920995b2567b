"""Rows of lists by their key, as a server-side apply tells them apart: by the table of `kubernetes_lists.py`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass_operator.manifests.kubernetes_lists import KEYS

Keyed = dict[tuple[object, ...], Any]


def key_fields(above: str, field: str) -> Mapping[str, object] | None:
    """The fields that make a row's key, each with its default, in the list `field` below `above`.

    None for a list that is one value.
    """
    return KEYS.get((above, field))


def by_key(rows: Iterable[Any], fields: Mapping[str, object]) -> Keyed | None:
    """The rows by their key; None where one lacks a field of it, or two have the same: no list that can be merged."""
    keyed: Keyed = {}
    for row in rows:
        key = key_of(row, fields)
        if key is None or key in keyed:
            return None
        keyed[key] = row
    return keyed


def key_of(row: object, fields: Mapping[str, object]) -> tuple[object, ...] | None:
    """A row's key; None for what cannot have one."""
    if not isinstance(row, Mapping):
        return None
    key = tuple(row.get(field, default) for field, default in fields.items())
    return key if all(isinstance(part, str | int) for part in key) else None
