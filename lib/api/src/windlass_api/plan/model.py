"""The values of planning: what the cluster has, what was decided, and why not.

`decide.py` makes them, `manifests/` and `status/` read them. Nothing here reads a cluster, a file or a clock.
A plan is kept in an annotation that others may write, so its fields carry bounds, by which `record.py` decodes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta
from windlass_sizing.placement import words

from windlass_api.crd.base import GPUS_MAX, QUANTITY_PATTERN
from windlass_api.crd.pods import NODES_MAX
from windlass_api.crd.rules import KEY_MAX

GPU_RESOURCE = "nvidia.com/gpu"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"  # where a node has slices of several kinds, each kind is a resource
RESOURCE_GROUP_LABEL = "serving.windlass.dev/resource-group"
RAY, NATIVE = "Ray", "Native"
# Bounds of a plan's fields: those of the CRD, in `spec` and in `status.plan`, and of Kubernetes.
GIB_MAX = 2**24  # 16 PiB: the seconds that such weights take to load are still an int32
Cards = Annotated[int, Meta(ge=1, le=GPUS_MAX)]
Gib = Annotated[float, Meta(ge=0, le=GIB_MAX)]
Mib = Annotated[int, Meta(ge=0, le=1024 * GIB_MAX)]
Quantity = Annotated[str, Meta(pattern=QUANTITY_PATTERN, max_length=32)]
Label = Annotated[str, Meta(max_length=63)]
LabelKey = Annotated[str, Meta(max_length=KEY_MAX)]
NodeSelector = Annotated[tuple[tuple[LabelKey, Label], ...], Meta(max_length=32)]
Group = Annotated[str, Meta(pattern=rf"^({RAY}|{NATIVE})$")]
Sentences = Annotated[tuple[Annotated[str, Meta(max_length=1024)], ...], Meta(max_length=32)]
HostParts = Annotated[tuple[tuple[Annotated[str, Meta(max_length=64)], Gib], ...], Meta(max_length=32)]
Cores = Annotated[int, Meta(ge=0, le=1024)]


def product_label(resource: str) -> str:
    """The node label that names the card, or the slice, behind a resource."""
    return f"{resource}.product"


def place_of(node: str, resource: str) -> str:
    """By what GPUs are counted: the node, and behind a slash the slices' resource. No node name has a slash."""
    return node if resource == GPU_RESOURCE else f"{node}/{resource}"


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint that keeps pods off it: its effect is NoSchedule or NoExecute."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one node that one resource hands out, all of one product; a node may have several such."""

    node: str
    product: str  # the label nvidia.com/gpu.product as it stands, for example NVIDIA-L20
    memory_gib: float | None  # of one card, from the label nvidia.com/gpu.memory; None when the node has no such label
    allocatable: int  # cards that the kubelet hands out at all; a card that is shared counts once
    free: int  # of these, not requested by any pod now
    labels: Mapping[str, str] = field(default_factory=dict)
    resource: str = GPU_RESOURCE
    host_gib: float = 0.0  # of host memory, for each GPU handed out; 0 when the node does not say
    node_gib: float = 0.0  # of host memory, that pods may ask for in all; 0 when the node does not say
    taints: tuple[Taint, ...] = ()  # without those by which Kubernetes tells a passing state of the node

    @property
    def place(self) -> str:
        """By what its GPUs are counted."""
        return place_of(self.node, self.resource)

    @property
    def known_as(self) -> str:
        """What names the card: its label, and for slices without one the resource."""
        return self.product or (self.resource if self.resource != GPU_RESOURCE else "")


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPU nodes of the cluster that take new pods."""

    nodes: tuple[NodeGpus, ...] = ()
    pods_listed: bool = True  # else nobody knows what is taken, and `free` says all


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement already in use, so that a new plan does not move a running service without need."""

    gpu_type: str
    gpus: int
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision that carries its reasons; figures in GiB are of one replica, all its GPUs together.

    What is asked of a node (`cpu`, `memory`, `shm`) is of one pod: a replica has one on each of its nodes.
    """

    gpus: Annotated[int, Meta(ge=0, le=GPUS_MAX)]  # tp × pp × sp × workers; 0 = served on the CPU
    tp: Cards
    pp: Cards
    nodes: Annotated[int, Meta(ge=1, le=NODES_MAX)]
    gpu_type: Label | None  # short name (L20); None on the CPU
    max_model_len: Annotated[int, Meta(ge=1, le=16_777_216)]
    dtype: Annotated[str, Meta(max_length=32)]
    quantization: Annotated[str, Meta(max_length=64)] | None
    gpu_memory_utilization_percent: Annotated[int, Meta(ge=0, le=100)]
    enforce_eager: bool
    weights_gib: Gib
    kv_gib: Gib
    required_gib: Gib
    seed_required_gib: Gib
    cpu: Quantity  # of Kubernetes, ready for the pod, as the next two
    memory: Quantity
    shm: Quantity
    node_selector: NodeSelector = ()
    group: Group | None = None  # what joins several nodes: RAY or NATIVE; None for one node
    workers: Annotated[int, Meta(ge=1, le=64)] = 1  # equal engines in the pod
    overhead_gib: Gib = 0.0  # of one card: what the engine itself takes
    per_gpu_gib: Gib = 0.0  # of one card: what it must have
    card_gib: Gib | None = None  # of one card: what it has; None when nobody knows
    alternatives: Sentences = ()
    advice: Sentences = ()
    because: Sentences = ()
    resource: LabelKey = GPU_RESOURCE  # by which a pod asks for the GPUs
    host_parts: HostParts = ()  # what the pod's memory is the sum of: names and GiB
    sp: Cards = 1  # times tp × pp cards that share each long prompt; each has all weights and the whole KV cache
    base: Annotated[str, Meta(max_length=1024)] = ""  # of an adapter: path on the model's volume, where it was found
    prefix_offload_mib: Mib = 0  # host memory of a pod for evicted prefixes, by spec.engine.prefixOffload
    draft_threads: Cores = 0  # cores of each engine that draft, by spec.engine.speculation.runsOn
    # Processes behind one port, by the pod's processors; a number of the user's own is none of it.
    api_processes: Annotated[int, Meta(ge=1, le=1024)] = 1

    def summary(self) -> str:
        """One line for a condition message and an Event: the choice, its memory, and what it warns of."""
        return "; ".join((f"{self.place()}, context {self.max_model_len}{self._need()}", *words.warnings(self.because)))

    def _need(self) -> str:
        if not self.gpus or not self.per_gpu_gib:
            return ""
        have = f" of {self.card_gib:.2f}" if self.card_gib else ""
        return f", {self.per_gpu_gib:.2f}{have} GiB needed on each GPU"

    @property
    def gpus_per_pod(self) -> int:
        """The cards of each pod of a replica."""
        return self.gpus // self.nodes

    def place(self) -> str:
        """Where a replica runs, and how it is split."""
        if not self.gpus:
            return "CPU, no GPU"
        text = f"{self.gpus} × {self.gpu_type}, TP {self.tp}"
        text += f", PP {self.pp}" if self.pp > 1 else ""
        text += f", SP {self.sp}" if self.sp > 1 else ""
        text += f", {self.workers} engines" if self.workers > 1 else ""
        return text + (f", on {self.nodes} nodes by {self.group}" if self.nodes > 1 else "")

    def to_status(self) -> dict[str, object]:
        """The `status.plan` of the resource: strings and integers only."""
        return {
            "gpus": self.gpus,
            "tp": self.tp,
            "pp": self.pp,
            **({"sp": self.sp} if self.sp > 1 else {}),
            "nodes": self.nodes,
            **({"gpuType": self.gpu_type} if self.gpu_type else {}),
            "maxModelLen": self.max_model_len,
            "dtype": self.dtype,
            **({"quantization": self.quantization} if self.quantization else {}),
            **({"group": self.group} if self.group else {}),
            **({"perGPU": self._per_gpu()} if self.gpus else {}),
            "weightsGib": f"{self.weights_gib:.2f}",
            "kvCacheGib": f"{self.kv_gib:.2f}",
            "requiredGib": f"{self.required_gib:.2f}",
            "seedRequiredGib": f"{self.seed_required_gib:.2f}",
            **({"hostMemory": self._host_memory()} if self.host_parts else {}),
            "alternatives": list(self.alternatives),
            "advice": list(self.advice),
            "because": list(self.because),
        }

    def _host_memory(self) -> list[dict[str, str]]:
        return [{"name": name, "gib": f"{gib:.2f}"} for name, gib in self.host_parts]

    def _per_gpu(self) -> dict[str, str]:
        figures = {
            "weightsGib": self.weights_gib / self.gpus,
            "kvCacheGib": self.kv_gib / self.gpus,
            "overheadGib": self.overhead_gib,
            "requiredGib": self.per_gpu_gib,
            "haveGib": self.card_gib,
        }
        return {key: f"{gib:.2f}" for key, gib in figures.items() if gib is not None}


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
    "NoMatchingNode",  # none of these has the labels that the spec asks for
    "UntoleratedTaint",  # each of these has a taint that the spec does not bear
    "GpuWithoutKernels",  # the image's engine has no kernels for the cards
    "NotEnoughGpus",  # more cards or nodes asked than there are
    "DoesNotFit",  # the model is larger than the largest node
    "BadParallelism",  # GPUs, nodes, tensorParallelSize, pipelineParallelSize and heads do not divide
    "UnsupportedQuantization",  # the method cannot run on the GPU or on this checkpoint
    "UnsupportedDtype",  # the number format cannot be computed in on the GPU, by this model or this checkpoint
    "ArchitectureNotServed",  # the pinned engine has no module for the model
    "ContextTooLong",  # maxModelLen above the model's own
    "AdapterUnusable",  # this engine serves no adapters, or the flags switch them off or take away their room
    "DraftUnusable",  # the draft model's vocabulary is another, or nothing drafts so, or a flag contradicts it
    "SharedMemoryTooSmall",  # sharedMemory does not hold the KV cache offloaded to it
    "PrefixOffloadWithoutSize",  # --enable-prefix-cache-offload without --prefix-offload-mib
    "PrefixOffloadTooLarge",  # spec.engine.prefixOffload is more than pod, /dev/shm or node leave
    "PrefixOffloadUnusable",  # a flag or a variable excludes it
)
