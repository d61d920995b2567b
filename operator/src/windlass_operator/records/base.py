"""What all records have: metadata, its owner, conditions; and how an object becomes a record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""Kubernetes' int32 where it allows none below 0. Whoever may write the object chooses it: no loop ends there."""
Generation = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Part(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of a record; a field that the API server left out has its default."""


class Owner(Part, frozen=True):
    """One of metadata.ownerReferences."""

    uid: str = ""
    controller: bool = False


class Meta(Part, frozen=True):
    """metadata; times are RFC 3339, empty where there is none."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: Generation = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""


class Condition(Part, frozen=True):
    """One of status.conditions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""

    @property
    def holds(self) -> bool:
        """Whether its status is True."""
        return self.status == "True"


class Record(Part, frozen=True):
    """An object of which only the metadata is read; the base of all others."""

    kind: str = ""
    metadata: Meta = Meta()

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.metadata.uid

    @property
    def is_leaving(self) -> bool:
        """Whether somebody has asked for its deletion."""
        return bool(self.metadata.deletion_timestamp)

    @property
    def controller_uid(self) -> str | None:
        """The uid of the owner that controls the object."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), None)

    def annotation(self, key: str) -> str:
        """An annotation's text; empty where there is none."""
        return self.metadata.annotations.get(key, "")


P = TypeVar("P", bound=Part)
R = TypeVar("R", bound=Record)


def parse(shape: type[P], item: Mapping[str, Any]) -> P:
    """The object as a record. A null is a field that is not there; any other kind of value is msgspec's error."""
    try:
        return msgspec.convert(item, shape)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(item), shape)


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, Mapping):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def condition(rows: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((row for row in rows if row.type == type_), None)


def owned_by(items: Iterable[R], uid: str) -> tuple[R, ...]:
    """Those of the records whose controller has that uid."""
    return tuple(item for item in items if uid and item.controller_uid == uid)


def living(items: Iterable[R]) -> list[R]:
    """Those that are not being deleted; newest first, then by name, whatever order the API server has."""
    rows = (item for item in items if not item.metadata.deletion_timestamp)
    return sorted(rows, key=lambda item: (item.metadata.creation_timestamp, item.metadata.name), reverse=True)
