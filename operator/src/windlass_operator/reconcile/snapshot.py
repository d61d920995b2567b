"""The snapshot: one LLMService as one run of the reconcile sees it, and what follows from that alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_api.crd.v1alpha1 import LLMService

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.records.base import living
from windlass_operator.records.pods import Pod
from windlass_operator.status import conditions as c
from windlass_operator.status.children import Children
from windlass_operator.status.observe import Subject


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which LLMService."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One LLMService and what belongs to it; `now` is RFC 3339."""

    raw: Manifest
    service: LLMService
    subject: Subject
    children: Children
    now: str

    @property
    def failing_since(self) -> str:
        """Since when the model cannot be had; empty when it can."""
        row = c.find(self.subject.previous_conditions, c.MODEL_READY)
        return str(row["lastTransitionTime"]) if row and row.get("status") == c.FALSE else ""

    @property
    def has_asked_for_download(self) -> bool:
        """Whether the last status has a download."""
        row = c.find(self.subject.previous_conditions, c.DOWNLOADING)
        return row is not None and row.get("reason") != "Settled"

    @property
    def cannot_be_placed(self) -> bool:
        """A pod that the scheduler found no node for: perhaps the planned kind of GPU is gone for good."""
        rows = (pod.condition("PodScheduled") for pod in living(self.children.pods))
        return any(row is not None and row.reason == "Unschedulable" for row in rows)

    @property
    def worth_asking(self) -> list[Pod]:
        """Pods whose facts may have news: while something moves, a license may end or hits are shown, all of them.

        Else the unready ones.
        """
        progressing = c.find(self.subject.previous_conditions, c.PROGRESSING)
        settled = progressing is not None and progressing.get("reason") == "Settled"
        everyone = not settled or self.subject.license_required or self.subject.counts_hits
        return [pod for pod in living(self.children.pods) if everyone or not pod.is_ready]
