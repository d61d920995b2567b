"""Which Events a change of status is worth; the cluster layer writes them. Pure.

One step of a service's life is one Event: the Event of a new plan also says which model was found and what happens
next. `Inspecting` is a condition alone; the Event of its outcome follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.status import conditions as c
from windlass_operator.status import reasons

UNTOLD = "Inspecting"  # Ready's reason in between, told by the conditions


@dataclass(frozen=True, slots=True)
class Note:
    """What an Event says; its type is the reason's severity."""

    reason: str
    message: str


def notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """The Events that a change of status is worth: a new plan, a new word of Ready, trouble beside it, a warning."""
    plan, ready = (_news(before, after, type_) for type_ in (c.PLANNED, c.READY))
    trouble, older = (_news(before, after, type_) for type_ in (c.DEGRADED, c.OLDER_FIELDS))
    if ready is not None and ready.reason == UNTOLD:
        ready = None
    if plan is not None:
        plan, ready = _of_the_plan(plan, ready, before, after)
    told = [note for note in (plan, ready, trouble, older) if note is not None]
    words = {note.reason for note in told}
    return told + [note for note in _license_notes(before, after) if note.reason not in words]


def _news(before: Mapping[str, Any], after: Mapping[str, Any], type_: str) -> Note | None:
    """What one condition says that is new."""
    old, new = _rows(before, after, type_)
    if not new or (type_ != c.READY and new.get("status") != c.TRUE):
        return None  # why there is no plan is Ready's word too, and no trouble is no news
    other_words = new.get("message") != old.get("message")
    if new.get("reason") != old.get("reason") or (other_words and (_warns(new["reason"]) or type_ == c.PLANNED)):
        return Note(str(new["reason"]), str(new["message"]))
    return None


def _of_the_plan(
    plan: Note, ready: Note | None, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[Note, Note | None]:
    """A new plan with the model that it is for and what Ready says next; a warning stays an Event of its own."""
    old, model = _rows(before, after, c.MODEL_READY)
    found = model.get("status") == c.TRUE and model.get("message") != old.get("message")
    joined = ready is not None and not _warns(ready.reason)
    told = (
        *((f"{model['reason']}: {model['message']}",) if found else ()),
        plan.message,
        *((f"{ready.reason}: {ready.message}",) if ready and joined else ()),
    )
    return Note(plan.reason, "; ".join(told)), None if joined else ready


def _warns(reason: str) -> bool:
    return reasons.row(reason).severity == reasons.WARNING


def _license_notes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Note]:
    """A warning about the license, in new words; those of its coming end are new once a day."""
    old, new = _rows(before, after, c.LICENSED)
    said = [(row.get("reason"), row.get("message")) for row in (old, new)]
    if not new or said[0] == said[1] or not _warns(new["reason"]):
        return []
    return [Note(str(new["reason"]), str(new["message"]))]


def _rows(
    before: Mapping[str, Any], after: Mapping[str, Any], type_: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """One condition as it was and as it is; empty where there is none."""
    return c.find(before.get("conditions") or (), type_) or {}, c.find(after["conditions"], type_) or {}
