"""The kinds that the operator reads and writes, as lightkube resources that stay plain dicts.

lightkube's typed models would drop fields of a newer API server and double the operator's memory; what is compared
and applied here are dicts anyway.
"""

from __future__ import annotations

from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    GenericNamespacedStatus,
    create_api_info,
)

from windlass_operator.api.v1alpha1 import GROUP, KIND, PLURAL, VERSION


class LLMServices(GenericNamespacedResource):
    """Our own resource."""

    _api_info = create_api_info(GROUP, VERSION, KIND, PLURAL)


class LLMServiceStatus(GenericNamespacedStatus):
    """Its status subresource."""

    _api_info = ApiInfo(
        resource=ResourceDef(GROUP, VERSION, KIND),
        parent=ResourceDef(GROUP, VERSION, KIND),
        plural=PLURAL,
        verbs=["get", "patch", "put"],
        action="status",
    )


class Deployments(GenericNamespacedResource):
    """apps/v1 Deployment."""

    _api_info = create_api_info("apps", "v1", "Deployment", "deployments")


class ReplicaSets(GenericNamespacedResource):
    """apps/v1 ReplicaSet: read for its owner alone, never written."""

    _api_info = create_api_info("apps", "v1", "ReplicaSet", "replicasets")


class StatefulSets(GenericNamespacedResource):
    """apps/v1 StatefulSet."""

    _api_info = create_api_info("apps", "v1", "StatefulSet", "statefulsets")


class Budgets(GenericNamespacedResource):
    """policy/v1 PodDisruptionBudget."""

    _api_info = create_api_info("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")


class Ingresses(GenericNamespacedResource):
    """networking.k8s.io/v1 Ingress."""

    _api_info = create_api_info("networking.k8s.io", "v1", "Ingress", "ingresses")


class NetworkPolicies(GenericNamespacedResource):
    """networking.k8s.io/v1 NetworkPolicy."""

    _api_info = create_api_info("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")


class HTTPRoutes(GenericNamespacedResource):
    """gateway.networking.k8s.io/v1 HTTPRoute; not every cluster serves it."""

    _api_info = create_api_info("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")


class Services(GenericNamespacedResource):
    """core/v1 Service."""

    _api_info = create_api_info("", "v1", "Service", "services")


class Jobs(GenericNamespacedResource):
    """batch/v1 Job."""

    _api_info = create_api_info("batch", "v1", "Job", "jobs")


class Pods(GenericNamespacedResource):
    """core/v1 Pod."""

    _api_info = create_api_info("", "v1", "Pod", "pods")


class Events(GenericNamespacedResource):
    """core/v1 Event."""

    _api_info = create_api_info("", "v1", "Event", "events")


class Leases(GenericNamespacedResource):
    """coordination.k8s.io/v1 Lease."""

    _api_info = create_api_info("coordination.k8s.io", "v1", "Lease", "leases")


class Nodes(GenericGlobalResource):
    """core/v1 Node."""

    _api_info = create_api_info("", "v1", "Node", "nodes")


Namespaced = type[GenericNamespacedResource]
APPLIED: dict[str, Namespaced] = {
    "Deployment": Deployments,
    "StatefulSet": StatefulSets,
    "Service": Services,
    "PodDisruptionBudget": Budgets,
    "Ingress": Ingresses,
    "NetworkPolicy": NetworkPolicies,
    "HTTPRoute": HTTPRoutes,
    "Job": Jobs,
    "Event": Events,
}
