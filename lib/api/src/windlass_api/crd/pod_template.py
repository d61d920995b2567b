"""`spec.podTemplate`: a closed piece of a pod template, laid over the serving pods.

Every field that is here moves the pod, adds a container under our own security context, or mounts what the service's
namespace holds anyway (docs/adr/0034-pod-template-is-a-closed-schema.md). A field that a later Kubernetes invents is
refused until a row here allows it, and the schema's depth is the depth of what the API server stores.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from windlass_api.crd.base import ApiModel, StringMap, schema_extra
from windlass_api.crd.pod_containers import Container
from windlass_api.crd.pod_scheduling import (
    Affinity,
    PodToleration,
    ReadinessGate,
    ResourceClaim,
    SchedulingGate,
    TopologySpread,
)
from windlass_api.crd.pod_volumes import Volume
from windlass_api.crd.pod_words import DnsLabel, Labels, ObjectName, Piece, QuantityMap, Seconds, rows
from windlass_api.crd.rules import PRIORITY_RULES

CONTAINERS_MAX, VOLUMES_MAX, ROWS_MAX = 8, 32, 16
Host = Annotated[str, Field(min_length=1, max_length=253)]


class DnsOption(Piece):
    """One option of the resolver."""

    name: ObjectName = Field(description="name is the option.")
    value: Annotated[str, Field(max_length=253)] | None = Field(None, description="value is its value.")


class DnsConfig(Piece):
    """How the pod resolves names."""

    nameservers: list[Host] | None = rows(3, "nameservers are addresses of resolvers.")
    searches: list[Host] | None = rows(32, "searches are domains that short names are looked up in.")
    options: list[DnsOption] | None = rows(ROWS_MAX, "options are the resolver's options.")


class HostAlias(Piece):
    """A line of the pod's own /etc/hosts."""

    ip: Annotated[str, Field(min_length=1, max_length=45)] = Field(description="ip is the address.")
    hostnames: list[Host] | None = rows(ROWS_MAX, "hostnames are its names.")


class PullSecretName(Piece):
    """A Secret that pulls images."""

    name: ObjectName = Field(description="name is the Secret.")


class PodSpecPiece(Piece):
    """A piece of a PodSpec: the fields that raise no privilege."""

    containers: list[Container] | None = rows(
        CONTAINERS_MAX, "containers change the serving container, named server, or add others.", key="name"
    )
    init_containers: list[Container] | None = rows(
        CONTAINERS_MAX, "initContainers run before, or beside with restartPolicy Always.", key="name"
    )
    volumes: list[Volume] | None = rows(VOLUMES_MAX, "volumes are added to the pod.", key="name")
    affinity: Affinity | None = Field(None, description="affinity says which nodes, and near which pods.")
    tolerations: list[PodToleration] | None = rows(32, "tolerations are added to those of spec.scheduling.")
    node_selector: Labels | None = Field(
        None, max_length=32, description="nodeSelector are further labels that a node must have."
    )
    topology_spread_constraints: list[TopologySpread] | None = rows(
        ROWS_MAX, "topologySpreadConstraints are added to that of spec.scheduling; one with its keys is laid over it."
    )
    priority_class_name: ObjectName | None = Field(
        None,
        json_schema_extra=schema_extra(*PRIORITY_RULES),
        description="priorityClassName is the pods' PriorityClass.",
    )
    preemption_policy: Literal["PreemptLowerPriority", "Never"] | None = Field(
        None, description="preemptionPolicy says whether pods of lower priority make room."
    )
    scheduler_name: ObjectName | None = Field(None, description="schedulerName is the scheduler.")
    scheduling_gates: list[SchedulingGate] | None = rows(
        ROWS_MAX, "schedulingGates hold the pods back until they are removed.", key="name"
    )
    readiness_gates: list[ReadinessGate] | None = rows(
        ROWS_MAX, "readinessGates are further conditions of the pods' readiness."
    )
    runtime_class_name: ObjectName | None = Field(None, description="runtimeClassName is the RuntimeClass.")
    overhead: QuantityMap | None = Field(None, description="overhead is what the RuntimeClass itself takes.")
    resource_claims: list[ResourceClaim] | None = rows(
        ROWS_MAX, "resourceClaims are device claims of the namespace.", key="name"
    )
    termination_grace_period_seconds: Seconds | None = Field(
        None, description="terminationGracePeriodSeconds is how long a pod may take to end."
    )
    image_pull_secrets: list[PullSecretName] | None = rows(
        ROWS_MAX, "imagePullSecrets are added to spec.image.pullSecrets.", key="name"
    )
    hostname: DnsLabel | None = Field(None, description="hostname is the pods' host name.")
    set_hostname_as_fqdn: bool | None = Field(
        None, alias="setHostnameAsFQDN", description="setHostnameAsFQDN makes the host name the full domain name."
    )
    host_aliases: list[HostAlias] | None = rows(32, "hostAliases are lines of the pods' /etc/hosts.")
    dns_policy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] | None = Field(
        None, description="dnsPolicy says who resolves names."
    )
    dns_config: DnsConfig | None = Field(None, description="dnsConfig says how names are resolved.")

    def to_piece(self) -> dict[str, Any]:
        """What was written, in Kubernetes' words; what was left out is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class PodTemplateSpec(ApiModel):
    """A piece of a pod template, laid over the serving pods: the way out for what has no field of its own."""

    labels: StringMap = Field(default_factory=dict, max_length=32, description="labels are added to the pods.")
    annotations: StringMap = Field(
        default_factory=dict, max_length=32, description="annotations are added to the pods."
    )
    spec: PodSpecPiece = Field(
        default_factory=PodSpecPiece,
        description="spec is a piece of a PodSpec; a field that could raise a privilege is none.",
    )
