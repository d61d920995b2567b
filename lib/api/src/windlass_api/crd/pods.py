"""The parts of the spec that shape pods: layout, environment, cache and scheduling."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from windlass_api.crd.base import (
    WHOLE_LIST,
    ApiModel,
    NameRef,
    Quantity,
    SecretKey,
    StringMap,
    not_stored,
    schema_extra,
)
from windlass_api.crd.rules import CACHE_RULES, ENV_RULES, PRIORITY_RULES

NODES_MAX = 64


class DeploymentSpec(ApiModel):
    """How a replica is laid out over nodes, and how its pods are replaced."""

    mode: Literal["Auto", "Standard", "Distributed"] = Field(
        "Auto",
        description="mode is Standard for one node a replica, Distributed for several, Auto for what the model needs.",
    )
    nodes: int | None = Field(
        None, ge=1, le=NODES_MAX, description="nodes is how many nodes a replica is spread over; left out: planned."
    )
    group: Literal["Auto", "Ray", "Native"] = Field(
        "Auto",
        description="group is what joins the nodes of a replica: Ray, or Native for vLLM's own; Auto is Ray on GPUs.",
    )
    rollout: Literal["Auto", "Surge", "Replace"] = Field(
        "Auto",
        description="rollout starts new pods first (Surge) or ends old ones first (Replace); Auto looks for free GPUs.",
    )
    max_restarts: int = Field(
        5,
        ge=0,
        le=1000,
        description="maxRestarts is how often a replica over several nodes is restarted before it is given up.",
    )
    drain_seconds: int = Field(
        60, ge=0, le=3600, description="drainSeconds is how long a pod that is told to go may finish its answers."
    )


class ValueFrom(ApiModel):
    """Where a variable's text comes from."""

    secret_key_ref: SecretKey | None = Field(None, description="secretKeyRef is a key of a Secret.")
    config_map_key_ref: SecretKey | None = Field(None, description="configMapKeyRef is a key of a ConfigMap.")


class EnvVar(ApiModel):
    """An environment variable of the serving container."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*ENV_RULES))

    name: str = Field(
        min_length=1, max_length=256, pattern="^[A-Za-z_][A-Za-z0-9_]*$", description="name is the variable's name."
    )
    value: str = Field("", max_length=32768, description="value is the variable's text.")
    value_from: ValueFrom | None = Field(
        None, description="valueFrom takes the text from a Secret or a ConfigMap instead; secrets belong there."
    )


class CacheSpec(ApiModel):
    """The writable volume of a serving pod; it also holds HOME."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*CACHE_RULES))

    pvc: str = Field(
        "",
        max_length=253,
        json_schema_extra=not_stored,
        description="pvc is the older form of pvcRef: the claim's name alone.",
    )
    pvc_ref: NameRef | None = Field(
        None,
        description="pvcRef is a claim that keeps the cache over restarts; left out: a volume that goes with the pod.",
    )
    size_limit: Quantity | None = Field(
        None, description="sizeLimit is the most that the volume which goes with the pod may hold."
    )

    @property
    def claim(self) -> str:
        """The claim that keeps the cache, in whichever form; empty without one."""
        return self.pvc_ref.name if self.pvc_ref else self.pvc


class Toleration(ApiModel):
    """One taint that the pods bear; the words are Kubernetes' own."""

    key: str = Field("", max_length=316, description="key is the taint's key; empty with operator Exists means all.")
    operator: Literal["Exists", "Equal"] = Field("Equal", description="operator is Exists or Equal.")
    value: str = Field("", max_length=63, description="value is the taint's value, for Equal.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        "", description="effect is the taint's effect; empty means all."
    )


class SchedulingSpec(ApiModel):
    """Where the pods may run, and before whom."""

    node_selector: StringMap = Field(
        default_factory=dict, max_length=32, description="nodeSelector are further labels that a node must have."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="tolerations are further taints that the pods bear.",
    )
    priority_class_name: str = Field(
        "",
        max_length=253,
        json_schema_extra=schema_extra(*PRIORITY_RULES),
        description="priorityClassName is the pods' PriorityClass; empty means the default.",
    )
    topology_spread: Literal["None", "Node", "Zone"] = Field(
        "None", description="topologySpread spreads the replicas over nodes or zones where it can."
    )
