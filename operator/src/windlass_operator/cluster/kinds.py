"""The kinds that the operator reads and writes, as the API server names them; the objects themselves are dicts."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_api.crd.v1alpha1 import GROUP, KIND, PLURAL, VERSION


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of one API; `action` is a subresource."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    action: str = ""

    @property
    def api_version(self) -> str:
        """Group and version, as manifests have it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def names(self) -> tuple[str, str, str]:
        """Group, version and plural, by which kopf knows a kind."""
        return self.group, self.version, self.plural

    def path(self, namespace: str | None = None, name: str = "") -> str:
        """The collection's path, or one object's; None means all namespaces."""
        root = f"apis/{self.group}" if self.group else "api"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        action = f"/{self.action}" if self.action else ""
        return f"/{root}/{self.version}{scope}/{self.plural}" + (f"/{name}{action}" if name else "")


LLMServices = Kind(GROUP, VERSION, KIND, PLURAL)
LLMServiceStatus = Kind(GROUP, VERSION, KIND, PLURAL, action="status")
Deployments = Kind("apps", "v1", "Deployment", "deployments")
ReplicaSets = Kind("apps", "v1", "ReplicaSet", "replicasets")  # read for their owner alone, never written
StatefulSets = Kind("apps", "v1", "StatefulSet", "statefulsets")
Budgets = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
Ingresses = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
NetworkPolicies = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
HTTPRoutes = Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")  # not every cluster serves it
Services = Kind("", "v1", "Service", "services")
Jobs = Kind("batch", "v1", "Job", "jobs")
Pods = Kind("", "v1", "Pod", "pods")
Events = Kind("", "v1", "Event", "events")
Leases = Kind("coordination.k8s.io", "v1", "Lease", "leases")
Nodes = Kind("", "v1", "Node", "nodes", namespaced=False)

APPLIED = {
    one.kind: one
    for one in (Deployments, StatefulSets, Services, Budgets, Ingresses, NetworkPolicies, HTTPRoutes, Jobs, Events)
}
