"""What the status is made from: whom it is about, and what one look at the cluster found. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass_operator.records.routes import Expose
from windlass_operator.status import conditions as c
from windlass_operator.status import reasons
from windlass_operator.status.children import Children
from windlass_operator.status.conditions import Verdict
from windlass_operator.status.facts import PodFacts
from windlass_operator.status.hold import Hold
from windlass_operator.status.inspection import WAITING, Inspection


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom the status is about: the parts of the LLMService that the status needs."""

    name: str
    namespace: str
    generation: int
    replicas: int
    license_required: bool
    previous: Mapping[str, Any] = field(default_factory=dict)
    suspended: bool = False
    expose: Expose = field(default_factory=Expose)
    counts_hits: bool = False  # its pods tell where prompts were found, which no event brings

    @property
    def previous_conditions(self) -> list[Mapping[str, Any]]:
        """The operator's conditions that are written now; one without a reason of the table is none of them."""
        rows = self.previous.get("conditions") or ()
        return [row for row in rows if row.get("type") in c.TYPES and row.get("reason") in reasons.TABLE]

    @property
    def wanted(self) -> int:
        """How many replicas shall answer."""
        return 0 if self.suspended else self.replicas


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the cluster found."""

    children: Children = field(default_factory=Children)
    facts: tuple[PodFacts, ...] = ()
    inspection: Inspection = WAITING
    planned: Verdict = field(default_factory=lambda: c.unknown("Planning"))
    plan: Mapping[str, Any] | None = None  # status.plan
    selector: str = ""
    downloading: Verdict | None = None  # True while it runs, False with why when it fails; None when it is not asked
    download: Mapping[str, Any] | None = None  # status.download
    held: Hold | None = None
    kept_images: tuple[str, ...] = ()  # of pod templates that an earlier operator rendered and that are in force
    older_forms: tuple[str, ...] = ()  # fields of the spec that have a newer form, and what to write instead
    routes_known: bool = True  # whether the cluster serves HTTPRoutes
