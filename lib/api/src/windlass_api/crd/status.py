"""The status of an LLMService, as pydantic models: strings and integers only, no floats.

`status/observe.py` fills it, the CRD's schema and the console's typed client come from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from windlass_api.crd.base import GPUS_MAX, INT64, WHOLE_LIST, ApiModel, list_map

COUNT_MAX = 2**31 - 1
GENERATION_MAX = 2**62

Sentence = Annotated[str, Field(max_length=1024)]


class Condition(ApiModel):
    """One standard Kubernetes condition."""

    # The schema asks a writer for both; a reader takes a stored condition that lacks them.
    model_config = ConfigDict(
        json_schema_extra={"required": ["type", "status", "reason", "message", "lastTransitionTime"]}
    )

    type: str = Field(min_length=1, max_length=64, description="type is the condition's name.")
    status: Literal["True", "False", "Unknown"] = Field(description="status is True, False or Unknown.")
    reason: str = Field("", max_length=64, description="reason is one word out of Windlass's closed list.")
    message: str = Field("", max_length=32768, description="message is a sentence for a person.")
    last_transition_time: Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})] = Field(
        description="lastTransitionTime is when the status last changed."
    )
    observed_generation: int | None = Field(
        None,
        ge=0,
        le=GENERATION_MAX,
        json_schema_extra=INT64,
        description="observedGeneration is the spec's generation that this condition speaks of; a True Ready speaks of "
        "the last one whose replicas all answered, which is how kubectl wait knows of a rollout.",
    )


OLDER_FIGURES = {
    "weightsGiB": "weightsGib",
    "kvGiB": "kvCacheGib",
    "overheadGiB": "overheadGib",
    "requiredGiB": "requiredGib",
    "haveGiB": "haveGib",
    "seedRequiredGiB": "seedRequiredGib",
}


def _with_older_names(schema: dict[str, Any]) -> None:
    """Let an operator of 0.1.0 write its names: the API server refuses a whole status for one that it does not know."""
    figures = schema["properties"]
    for older, name in OLDER_FIGURES.items():
        if name in figures:
            words = f"{older} is {name}, as an operator of 0.1.0 writes it; no later one does."
            figures[older] = {"type": "string", "maxLength": 32, "description": words}


class Figures(ApiModel):
    """Sizes in GiB, as text; a reader also takes the names of 0.1.0."""

    # kubectl describe begins a word at each capital: `kvGiB` would be "Kv Gi B".

    model_config = ConfigDict(json_schema_extra=_with_older_names)

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        older = {new: value[old] for old, new in OLDER_FIGURES.items() if old in value}
        return {**older, **value}


class CardBudget(Figures):
    """The memory of one GPU, as planned."""

    weights_gib: str | None = Field(None, max_length=32, description="weightsGib is the weights.")
    kv_cache_gib: str | None = Field(None, max_length=32, description="kvCacheGib is the cache of one context.")
    overhead_gib: str | None = Field(None, max_length=32, description="overheadGib is what the engine itself takes.")
    required_gib: str | None = Field(None, max_length=32, description="requiredGib is what the GPU must have.")
    have_gib: str | None = Field(None, max_length=32, description="haveGib is what the GPU has.")


class Measured(Figures):
    """What the running engine says of its memory, beside what was planned."""

    weights_gib: str | None = Field(None, max_length=32, description="weightsGib is the weights as loaded, on one GPU.")
    kv_cache_gib: str | None = Field(
        None, max_length=32, description="kvCacheGib is the memory of the KV cache, on one GPU."
    )
    kv_tokens: int | None = Field(
        None, ge=0, le=2**62, json_schema_extra=INT64, description="kvTokens is how many tokens the KV cache holds."
    )
    pod: str | None = Field(None, max_length=253, description="pod is the pod that was asked.")


class DownloadStatus(ApiModel):
    """How far the download is."""

    bytes_done: int | None = Field(
        None, ge=0, le=2**62, json_schema_extra=INT64, description="bytesDone is what lies on the volume."
    )
    bytes_total: int | None = Field(
        None, ge=0, le=2**62, json_schema_extra=INT64, description="bytesTotal is the size of all files to fetch."
    )
    bytes_per_second: int | None = Field(
        None, ge=0, le=2**62, json_schema_extra=INT64, description="bytesPerSecond is the present speed."
    )
    remaining_seconds: int | None = Field(
        None, ge=0, le=COUNT_MAX, description="remainingSeconds is how long it will take; left out while unknown."
    )


class HostPart(ApiModel):
    """One part of a pod's host memory."""

    name: str = Field(min_length=1, max_length=64, description="name is what the memory is for, as weights or engine.")
    gib: str = Field("", max_length=32, description="gib is its size in GiB.")


class PlanStatus(Figures):
    """What was decided before any GPU was taken, and why."""

    gpus: int | None = Field(None, ge=0, le=GPUS_MAX, description="gpus is the number of GPUs of a replica.")
    tp: int | None = Field(None, ge=0, le=GPUS_MAX, description="tp is the tensor parallel size.")
    pp: int | None = Field(None, ge=0, le=GPUS_MAX, description="pp is the pipeline parallel size.")
    sp: int | None = Field(None, ge=0, le=GPUS_MAX, description="sp is the number of GPUs that share long prompts.")
    nodes: int | None = Field(None, ge=0, le=GPUS_MAX, description="nodes is the number of nodes of a replica.")
    gpu_type: str | None = Field(None, max_length=63, description="gpuType is the chosen GPU.")
    max_model_len: int | None = Field(None, ge=0, le=16777216, description="maxModelLen is the context in tokens.")
    dtype: str | None = Field(None, max_length=32, description="dtype is the number format that is served.")
    quantization: str | None = Field(None, max_length=64, description="quantization is the method that is served.")
    group: str | None = Field(
        None, max_length=16, description="group is what joins the nodes of a replica: Ray or Native."
    )
    rollout: str | None = Field(
        None, max_length=16, description="rollout is how pods are replaced: Surge or Replace, by the free GPUs."
    )
    per_gpu: CardBudget | None = Field(None, alias="perGPU", description="perGPU is the memory of one GPU.")
    measured: Measured | None = Field(None, description="measured is what the running engine says of its memory.")
    weights_gib: str | None = Field(None, max_length=32, description="weightsGib is the size of the weights as served.")
    kv_cache_gib: str | None = Field(None, max_length=32, description="kvCacheGib is the KV cache of one full context.")
    required_gib: str | None = Field(
        None, max_length=32, description="requiredGib is the GPU memory needed, by our figure."
    )
    seed_required_gib: str | None = Field(
        None, max_length=32, description="seedRequiredGib is the GPU memory needed by the documents' rule of thumb."
    )
    host_memory: list[HostPart] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="hostMemory are the parts that a pod's host memory is the sum of.",
    )
    alternatives: list[Sentence] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="alternatives are other placements that would fit.",
    )
    advice: list[Sentence] = Field(
        default_factory=list,
        max_length=32,
        json_schema_extra=WHOLE_LIST,
        description="advice is what to do when memory is short, in order.",
    )
    because: list[Sentence] = Field(
        default_factory=list, max_length=32, json_schema_extra=WHOLE_LIST, description="because are the plan's reasons."
    )


class InForceStatus(ApiModel):
    """The figures of the plan that the pods are of."""

    gpus: int | None = Field(
        None, ge=0, le=GPUS_MAX, description="gpus is the number of GPUs of a replica; 0 while none is to run."
    )
    tp: int | None = Field(None, ge=0, le=GPUS_MAX, description="tp is the tensor parallel size.")
    max_model_len: int | None = Field(None, ge=0, le=16777216, description="maxModelLen is the context in tokens.")
    quantization: str | None = Field(None, max_length=64, description="quantization is the method that is served.")


class PrefixCacheStatus(ApiModel):
    """Where the tokens of prompts were found since the pods' start, over all pods that were asked."""

    gpu_percent: int = Field(
        0, alias="gpuPercent", ge=0, le=100, description="gpuPercent is the share that the GPU's cache had."
    )
    host_percent: int = Field(
        0, alias="hostPercent", ge=0, le=100, description="hostPercent is the share that came back from host memory."
    )
    computed_percent: int = Field(
        0, alias="computedPercent", ge=0, le=100, description="computedPercent is the share that was not hit."
    )


class StartupPhase(ApiModel):
    """How long one phase of the start took."""

    phase: str = Field(
        min_length=1,
        max_length=64,
        description="phase is model, license, prefetch, group, engine, a step of the engine's, first-chat, or serving.",
    )
    seconds: str = Field("", max_length=32, description="seconds is how long the phase took.")


class FailureStatus(ApiModel):
    """The last failure of a container, in words."""

    reason: str = Field("", max_length=64, description="reason is one word out of Windlass's closed list.")
    container: str = Field("", max_length=253, description="container is the container that failed.")
    exit_code: int | None = Field(
        None, ge=-COUNT_MAX - 1, le=COUNT_MAX, description="exitCode is the container's exit code."
    )
    excerpt: str = Field("", max_length=8192, description="excerpt is the end of what the container said.")
    remedy: str = Field("", max_length=2048, description="remedy is what to do.")
    count: int = Field(0, ge=0, le=COUNT_MAX, description="count is how often it failed in a row.")


class Address(ApiModel):
    """A place where the service answers."""

    name: str = Field(min_length=1, max_length=63, description="name tells addresses apart: cluster, ingress, gateway.")
    url: str = Field("", max_length=2048, description="url is the OpenAI base URL.")


class LLMServiceStatus(ApiModel):
    """What the operator saw and did."""

    observed_generation: int | None = Field(
        None,
        ge=0,
        le=GENERATION_MAX,
        json_schema_extra=INT64,
        description="observedGeneration is the spec's generation that this status speaks of.",
    )
    served_generation: int | None = Field(
        None,
        ge=0,
        le=GENERATION_MAX,
        json_schema_extra=INT64,
        description="servedGeneration is the spec's generation that the pods are of: lower than observedGeneration "
        "while a change is refused or not planned yet.",
    )
    ready_generation: int | None = Field(
        None,
        ge=0,
        le=GENERATION_MAX,
        json_schema_extra=INT64,
        description="readyGeneration is the last generation whose replicas all answered; it stays while they end and "
        "return, and a True Ready speaks of it.",
    )
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=list_map("type"),
        description="conditions are Ready, its parts from ModelReady to RouteReady, Downloading, Degraded, "
        "Progressing; Outdated while pods of an earlier operator stay, OlderFields while a field has a newer form.",
    )
    plan: PlanStatus | None = Field(None, description="plan is what was decided before any GPU was taken, and why.")
    in_force: InForceStatus | None = Field(
        None, description="inForce are the figures that serve: those of the plan before while a rollout goes on."
    )
    download: DownloadStatus | None = Field(None, description="download is how far the download is.")
    startup: list[StartupPhase] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=list_map("phase"),
        description="startup are the phases of the last start, with their seconds.",
    )
    prefix_cache: PrefixCacheStatus | None = Field(
        None, description="prefixCache is where prompts were found, while spec.engine.prefixOffload is on."
    )
    failure: FailureStatus | None = Field(None, description="failure is the last failure of a container, in words.")
    replicas: int | None = Field(None, ge=0, le=COUNT_MAX, description="replicas is the number of pods there are.")
    ready_replicas: int | None = Field(None, ge=0, le=COUNT_MAX, description="readyReplicas is how many pods serve.")
    updated_replicas: int | None = Field(
        None, ge=0, le=COUNT_MAX, description="updatedReplicas is how many pods are of the present revision."
    )
    ready: str | None = Field(None, max_length=32, description="ready is readyReplicas/replicas as text, for READY.")
    selector: str | None = Field(None, max_length=1024, description="selector finds the pods; kubectl scale reads it.")
    addresses: list[Address] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=list_map("name"),
        description="addresses are the base URLs where the service answers.",
    )
