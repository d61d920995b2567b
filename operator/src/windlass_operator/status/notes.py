"""Which Events a change of status is worth; the cluster layer writes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.status import conditions as c
from windlass_operator.status import reasons


@dataclass(frozen=True, slots=True)
class Note:
    """What an Event says; its type is the reason's severity."""

    reason: str
    message: str


def notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """The Events that a change of status is worth: a new plan, a new word of Ready, trouble beside it, a warning."""
    told: list[Note] = []
    for type_ in (c.PLANNED, c.READY, c.DEGRADED):
        old, new = _rows(before, after, type_)
        if type_ != c.READY and new.get("status") != c.TRUE:
            continue  # why there is no plan is Ready's word too, and no trouble is no news
        warns = new and reasons.row(new["reason"]).severity == reasons.WARNING
        if new.get("reason") != old.get("reason") or (
            new.get("message") != old.get("message") and (warns or type_ == c.PLANNED)
        ):
            told.append(Note(str(new["reason"]), str(new["message"])))
    words = {note.reason for note in told}
    return told + [note for note in _license_notes(before, after) if note.reason not in words]


def _license_notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """A warning about the license, in new words; those of its coming end are new once a day."""
    old, new = _rows(before, after, c.LICENSED)
    said = [(row.get("reason"), row.get("message")) for row in (old, new)]
    if not new or said[0] == said[1] or reasons.row(new["reason"]).severity != reasons.WARNING:
        return []
    return [Note(str(new["reason"]), str(new["message"]))]


def _rows(
    before: Mapping[str, Any], after: Mapping[str, Any], type_: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """One condition as it was and as it is; empty where there is none."""
    return c.find(before.get("conditions") or (), type_) or {}, c.find(after["conditions"], type_) or {}
