"""The values of planning: what the cluster has, what was decided, and why not.

`decide.py` makes them, `manifests/` and `status/` read them. Nothing here reads a cluster, a file or a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GPU_RESOURCE = "nvidia.com/gpu"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"
RESOURCE_GROUP_LABEL = "serving.windlass.dev/resource-group"


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one node, all of one product."""

    node: str
    product: str  # the label nvidia.com/gpu.product as it stands, for example NVIDIA-L20
    memory_gib: float | None  # of one card, from the label nvidia.com/gpu.memory; None when the node has no such label
    allocatable: int  # cards that the kubelet hands out at all
    free: int  # of these, not requested by any pod now
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPU nodes of the cluster that take new pods."""

    nodes: tuple[NodeGpus, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement already in use, so that a new plan does not move a running service without need."""

    gpu_type: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision that carries its reasons; figures in GiB are of one replica, all its GPUs together."""

    gpus: int  # 0 = served on the CPU
    tp: int
    pp: int
    nodes: int
    gpu_type: str | None  # short name (L20); None on the CPU
    max_model_len: int
    dtype: str
    quantization: str | None
    gpu_memory_utilization_percent: int
    enforce_eager: bool
    weights_gib: float
    kv_gib: float
    required_gib: float
    seed_required_gib: float
    cpu: str  # Kubernetes quantities, ready for the pod
    memory: str
    shm: str
    node_selector: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    because: tuple[str, ...] = ()

    def summary(self) -> str:
        """One line for a condition message and an Event."""
        place = f"{self.gpus} × {self.gpu_type}, TP {self.tp}" if self.gpus else "CPU, no GPU"
        return f"{place}, context {self.max_model_len}: {'; '.join(self.because)}"

    def to_status(self) -> dict[str, object]:
        """The `status.plan` of the resource: strings and integers only."""
        return {
            "gpus": self.gpus,
            "tp": self.tp,
            "pp": self.pp,
            "nodes": self.nodes,
            **({"gpuType": self.gpu_type} if self.gpu_type else {}),
            "maxModelLen": self.max_model_len,
            "dtype": self.dtype,
            "weightsGiB": f"{self.weights_gib:.2f}",
            "kvGiB": f"{self.kv_gib:.2f}",
            "requiredGiB": f"{self.required_gib:.2f}",
            "seedRequiredGiB": f"{self.seed_required_gib:.2f}",
            "alternatives": list(self.alternatives),
            "advice": list(self.advice),
            "because": list(self.because),
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no plan was made, and what to do; `reason` is one of REFUSAL_REASONS."""

    reason: str
    message: str
    remedy: str

    def sentence(self) -> str:
        """Message and remedy as one text for a condition."""
        return f"{self.message}; {self.remedy}"


REFUSAL_REASONS = (
    "NoGpuNodes",  # gpus are needed and no node has any
    "GpuTypeNotFound",  # no node has the asked type or group
    "NotEnoughGpus",  # more cards asked than any node has
    "DoesNotFit",  # the model is larger than the largest node
    "BadParallelism",  # gpus, tensorParallelSize and heads do not divide
    "UnsupportedQuantization",  # the method cannot run on the GPU or on this checkpoint
    "ContextTooLong",  # maxModelLen above the model's own
)
