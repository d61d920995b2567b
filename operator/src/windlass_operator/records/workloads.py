"""What makes pods: Deployments, the StatefulSet of a replica over several nodes, Jobs. Pure."""

from __future__ import annotations

from typing import Any

import msgspec
from windlass_api.crd.pods import NODES_MAX

from windlass_operator.records.base import Condition, Count, Generation, Part, Record, condition
from windlass_operator.records.pods import Pod

REVISION_LABEL = "controller-revision-hash"  # Kubernetes' own, of a StatefulSet's pods


class WorkloadSpec(Part, frozen=True):
    """How many pods, and from which template. The template stays a manifest: it is compared as a whole."""

    replicas: Count = 0
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class WorkloadStatus(Part, frozen=True):
    """What the controller counted, and the generation that it counted for."""

    observed_generation: Generation = 0
    replicas: Count = 0
    ready_replicas: Count = 0
    updated_replicas: Count = 0
    update_revision: str = ""  # of a StatefulSet
    conditions: tuple[Condition, ...] = ()


class Workload(Record, frozen=True):
    """A Deployment or a StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, or None."""
        return condition(self.status.conditions, type_)

    @property
    def is_behind(self) -> bool:
        """Whether its controller has not looked at the present spec yet."""
        return self.status.observed_generation < self.metadata.generation


class Deployment(Workload, frozen=True):
    """The replicas on one node each."""


class StatefulSet(Workload, frozen=True):
    """One replica over several nodes."""

    @property
    def members(self) -> int:
        """Pods of the replica, at most as many as a plan can have: others than the operator may scale the object."""
        return min(self.spec.replicas, NODES_MAX)

    def is_earlier(self, pod: Pod) -> bool:
        """Whether its pod is of an earlier template; False while Kubernetes has not looked at the present one yet."""
        revision = self.status.update_revision
        return bool(revision) and not self.is_behind and pod.label(REVISION_LABEL) != revision


class JobSpec(Part, frozen=True):
    """Whether the Job's pods are ended and no new ones made."""

    suspend: bool = False


class JobStatus(Part, frozen=True):
    """How far the Job is."""

    conditions: tuple[Condition, ...] = ()
    start_time: str = ""


class Job(Record, frozen=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, or None."""
        return condition(self.status.conditions, type_)
