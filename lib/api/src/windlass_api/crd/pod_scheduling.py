"""Where a pod may run, in Kubernetes' own words: affinity, spread, tolerations.

Terms about pods see the service's own namespace only. A required anti-affinity with the pods of all namespaces keeps
neighbours' pods off whole zones, so `namespaces` and `namespaceSelector` are no fields here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from windlass_api.crd.base import WHOLE_LIST
from windlass_api.crd.pod_words import LabelKey, Labels, LabelValue, ObjectName, Piece, Seconds, rows

TERMS_MAX, EXPRESSIONS_MAX, VALUES_MAX = 16, 16, 64
Weight = Annotated[int, Field(ge=1, le=100)]


class NodeExpression(Piece):
    """One condition on a node's labels or fields."""

    key: LabelKey = Field(description="key is the label or field.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(
        description="operator relates the key to the values."
    )
    values: list[LabelValue] | None = rows(VALUES_MAX, "values are what the key is compared with.")


class NodeTerm(Piece):
    """Conditions on a node that hold together."""

    match_expressions: list[NodeExpression] | None = rows(
        EXPRESSIONS_MAX, "matchExpressions are conditions on the node's labels."
    )
    match_fields: list[NodeExpression] | None = rows(
        EXPRESSIONS_MAX, "matchFields are conditions on the node's fields."
    )


class RequiredNodes(Piece):
    """The nodes that may be used: those of any term."""

    node_selector_terms: list[NodeTerm] = Field(
        min_length=1,
        max_length=TERMS_MAX,
        json_schema_extra=WHOLE_LIST,
        description="nodeSelectorTerms are alternatives.",
    )


class PreferredNodes(Piece):
    """Nodes that are used rather than others."""

    weight: Weight = Field(description="weight is the term's share of a node's score.")
    preference: NodeTerm = Field(description="preference is the term.")


class NodeAffinity(Piece):
    """Which nodes may or should be used."""

    required_during_scheduling_ignored_during_execution: RequiredNodes | None = Field(
        None, description="requiredDuringSchedulingIgnoredDuringExecution are the nodes that may be used."
    )
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodes] | None = rows(
        TERMS_MAX, "preferredDuringSchedulingIgnoredDuringExecution are nodes that are used rather than others."
    )


class LabelExpression(Piece):
    """One condition on the labels of pods."""

    key: LabelKey = Field(description="key is the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="operator relates the key to the values."
    )
    values: list[LabelValue] | None = rows(VALUES_MAX, "values are what the label is compared with.")


class LabelSelector(Piece):
    """Pods of the service's namespace, by their labels."""

    match_labels: Labels | None = Field(None, max_length=32, description="matchLabels are labels that a pod must have.")
    match_expressions: list[LabelExpression] | None = rows(
        EXPRESSIONS_MAX, "matchExpressions are conditions on the labels."
    )


class PodTerm(Piece):
    """Pods of the service's namespace, and the domain that is shared with them or kept from them."""

    topology_key: LabelKey = Field(description="topologyKey is the node label whose equal values make one domain.")
    label_selector: LabelSelector | None = Field(None, description="labelSelector chooses pods.")
    match_label_keys: list[LabelKey] | None = rows(
        EXPRESSIONS_MAX, "matchLabelKeys are labels whose values must equal the new pod's."
    )
    mismatch_label_keys: list[LabelKey] | None = rows(
        EXPRESSIONS_MAX, "mismatchLabelKeys are labels whose values must differ from the new pod's."
    )


class WeightedPodTerm(Piece):
    """A term that is kept where it can be."""

    weight: Weight = Field(description="weight is the term's share of a node's score.")
    pod_affinity_term: PodTerm = Field(description="podAffinityTerm is the term.")


class PodAffinity(Piece):
    """Terms about other pods of the service's namespace."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] | None = rows(
        TERMS_MAX, "requiredDuringSchedulingIgnoredDuringExecution are terms that must hold."
    )
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodTerm] | None = rows(
        TERMS_MAX, "preferredDuringSchedulingIgnoredDuringExecution are terms that are kept where they can be."
    )


class Affinity(Piece):
    """Which nodes, and near which pods."""

    node_affinity: NodeAffinity | None = Field(None, description="nodeAffinity says which nodes may be used.")
    pod_affinity: PodAffinity | None = Field(None, description="podAffinity says near which pods.")
    pod_anti_affinity: PodAffinity | None = Field(None, description="podAntiAffinity says away from which pods.")


class TopologySpread(Piece):
    """How evenly pods are spread over domains."""

    max_skew: int = Field(ge=1, le=1000, description="maxSkew is the most by which two domains may differ.")
    topology_key: LabelKey = Field(description="topologyKey is the node label whose equal values make one domain.")
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = Field(
        description="whenUnsatisfiable is what happens where it cannot be kept."
    )
    label_selector: LabelSelector | None = Field(None, description="labelSelector chooses the pods that are counted.")
    min_domains: int | None = Field(None, ge=1, le=1000, description="minDomains is the least number of domains.")
    node_affinity_policy: Literal["Honor", "Ignore"] | None = Field(
        None, description="nodeAffinityPolicy says whether nodes outside the affinity count."
    )
    node_taints_policy: Literal["Honor", "Ignore"] | None = Field(
        None, description="nodeTaintsPolicy says whether tainted nodes count."
    )
    match_label_keys: list[LabelKey] | None = rows(
        EXPRESSIONS_MAX, "matchLabelKeys are labels whose values must equal the new pod's."
    )


class PodToleration(Piece):
    """One taint that the pod tolerates."""

    key: Annotated[str, Field(max_length=317)] | None = Field(
        None, description="key is the taint's key; empty with operator Exists means all."
    )
    operator: Literal["Exists", "Equal"] | None = Field(None, description="operator is Exists or Equal.")
    value: LabelValue | None = Field(None, description="value is the taint's value, for Equal.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="effect is the taint's effect; empty means all."
    )
    toleration_seconds: Seconds | None = Field(
        None, description="tolerationSeconds is how long NoExecute is tolerated."
    )


class SchedulingGate(Piece):
    """A name that holds the pod back until it is removed."""

    name: ObjectName = Field(description="name is the gate.")


class ReadinessGate(Piece):
    """A further condition of the pod's readiness."""

    condition_type: LabelKey = Field(description="conditionType is the pod condition that must be true.")


class ResourceClaim(Piece):
    """A device claim of the service's namespace."""

    name: ObjectName = Field(description="name is what containers call the claim.")
    resource_claim_name: ObjectName | None = Field(None, description="resourceClaimName is the ResourceClaim.")
    resource_claim_template_name: ObjectName | None = Field(
        None, description="resourceClaimTemplateName is the template of one claim for each pod."
    )
