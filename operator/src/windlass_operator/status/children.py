"""What the cluster layer found of one LLMService: everything that the observers read beside what its pods say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from windlass_operator.records.base import R, Record, owned_by
from windlass_operator.records.pods import Event, Pod
from windlass_operator.records.routes import HTTPRoute, Ingress
from windlass_operator.records.workloads import Deployment, Job, StatefulSet, Workload


@dataclass(frozen=True, slots=True)
class Children:
    """Everything in the cluster that belongs to one LLMService."""

    deployment: Deployment | None = None
    service: Record | None = None
    stateful_sets: tuple[StatefulSet, ...] = ()  # one a replica over several nodes
    headless: tuple[Record, ...] = ()  # Services by which the members of such a replica find each other
    policies: tuple[Record, ...] = ()  # NetworkPolicies that keep others away from such members
    budget: Record | None = None
    ingress: Ingress | None = None
    http_route: HTTPRoute | None = None
    download_job: Job | None = None  # may be shared with other services of the namespace
    download_pods: tuple[Pod, ...] = ()
    jobs: tuple[Job, ...] = ()  # that look at the model's directory
    pods: tuple[Pod, ...] = ()  # of the server
    inspect_pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()  # warnings about pods that have not started, oldest first
    manifests: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """Those that an apply compares, by kind and name, as the API server sent them."""

    def live(self, kind: str, name: str) -> Mapping[str, Any] | None:
        """The whole object of that kind and name, whoever made it; None when it is not there."""
        return self.manifests.get((kind, name))

    def owned(self, uid: str) -> tuple[Record, ...]:
        """What serves and is the LLMService's own: candidates for deletion when it is no longer wanted."""
        single = (self.deployment, self.service, self.budget, self.ingress, self.http_route)
        rows = (*(row for row in single if row is not None), *self.stateful_sets, *self.headless, *self.policies)
        return owned_by(rows, uid)

    def own(self, uid: str) -> Children:
        """The children without objects that only have the LLMService's name and belong to another."""
        return replace(
            self,
            deployment=_own(self.deployment, uid),
            service=_own(self.service, uid),
            budget=_own(self.budget, uid),
            ingress=_own(self.ingress, uid),
            http_route=_own(self.http_route, uid),
        )

    @property
    def makers(self) -> tuple[Workload, ...]:
        """The Deployment and the StatefulSets."""
        return (*((self.deployment,) if self.deployment else ()), *self.stateful_sets)

    def workloads(self, uid: str) -> tuple[Workload, ...]:
        """What makes the LLMService's serving pods."""
        return tuple(row for row in self.owned(uid) if isinstance(row, Workload))


def _own(row: R | None, uid: str) -> R | None:
    return row if row is not None and owned_by((row,), uid) else None
