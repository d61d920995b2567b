"""What the cluster layer found of one LLMService: everything that the observers read beside what its pods say. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_api.objects.reading import Object, name_of, owned_by


@dataclass(frozen=True, slots=True)
class Children:
    """Everything in the cluster that belongs to one LLMService."""

    deployment: Object | None = None
    service: Object | None = None
    stateful_sets: tuple[Object, ...] = ()  # one a replica over several nodes
    headless: tuple[Object, ...] = ()  # Services by which the members of such a replica find each other
    policies: tuple[Object, ...] = ()  # NetworkPolicies that keep others away from such members
    budget: Object | None = None
    ingress: Object | None = None
    http_route: Object | None = None
    download_job: Object | None = None  # may be shared with other services of the namespace
    download_pods: tuple[Object, ...] = ()
    jobs: tuple[Object, ...] = ()  # that look at the model's directory
    pods: tuple[Object, ...] = ()  # of the server
    inspect_pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()  # warnings about pods that have not started, oldest first

    def live(self, kind: str, name: str) -> Object | None:
        """The object of that kind and name, whoever made it; None when it is not there."""
        rows = (*self._single(), *self.stateful_sets, *self.headless, *self.policies, *self.jobs)
        return next((row for row in rows if row.get("kind") == kind and name_of(row) == name), None)

    def owned(self, uid: str) -> tuple[Object, ...]:
        """What serves and is the LLMService's own: candidates for deletion when it is no longer wanted."""
        return owned_by((*self._single(), *self.stateful_sets, *self.headless, *self.policies), uid)

    def _single(self) -> tuple[Object, ...]:
        rows = (self.deployment, self.service, self.budget, self.ingress, self.http_route)
        return tuple(row for row in rows if row is not None)
