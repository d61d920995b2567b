"""The LLMService resource, version v1alpha1, as pydantic models.

This is the one source of the CRD: `schema.py` turns these classes into the structural schema, so types, defaults,
bounds and descriptions live here only. The operator, the console's typed client and the tests read resources through
these models. It must not import a Kubernetes client or anything that does I/O.

Every description begins with the field's name, as `kubectl explain` readers and LWS's API lint expect.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from windlass_api.crd.base import (
    GPUS_MAX,
    WHOLE_LIST,
    ApiModel,
    Quantity,
    list_map,
    schema_extra,
)
from windlass_api.crd.engine_rules import ENGINE_RULES, QUANTIZATION_RULES, SPECULATION_METHOD_RULES, SPECULATION_RULES
from windlass_api.crd.expose import ExposeSpec
from windlass_api.crd.model import ModelSource, ModelSpec
from windlass_api.crd.pod_template import PodTemplateSpec
from windlass_api.crd.pods import CacheSpec, DeploymentSpec, EnvVar, SchedulingSpec
from windlass_api.crd.prefix_offload import PrefixOffloadSpec, is_plain
from windlass_api.crd.rules import (
    HOST_RULES,
    MEDIA_DOMAIN_RULES,
    NAME_RULES,
    SPEC_RULES,
)
from windlass_api.crd.status import LLMServiceStatus

GROUP = "serving.windlass.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "LLMService"
PLURAL = "llmservices"
SINGULAR = "llmservice"
SHORT_NAMES = ("llm", "llmsvc")
CATEGORIES = ("windlass", "ai")


class PullSecret(ApiModel):
    """A reference to an image pull secret."""

    name: str = Field(min_length=1, max_length=253, description="name is a Secret in the service's namespace.")


class ImageSpec(ApiModel):
    """The serving image."""

    family: Literal["vllm", "deepspeed"] = Field("vllm", description="family is the engine inside the image.")
    version: str = Field(
        "",
        max_length=128,
        description="version is the image's tag; empty means the operator's own default.",
    )
    repository: str = Field(
        "",
        max_length=512,
        description="repository is the image without its tag; empty means the operator's own default.",
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="pullPolicy says when the node pulls the image."
    )
    pull_secrets: list[PullSecret] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=list_map("name"),
        description="pullSecrets are the Secrets used to pull the image.",
    )


class ResourcesSpec(ApiModel):
    """What the service may take; everything left out is planned from the model."""

    gpu_type: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        description="gpuType is the wanted GPU: a short name (L20), a family (A100), a node label (NVIDIA-L20), "
        "or a MIG slice (nvidia.com/mig-1g.10gb).",
    )
    gpus: int | None = Field(
        None,
        ge=0,
        le=GPUS_MAX,
        description="gpus is the number of GPUs of a replica; left out, it is planned; 0 serves on the CPU.",
    )
    cpu: Quantity | None = Field(None, description="cpu is the CPU request of each pod; left out, it is planned.")
    memory: Quantity | None = Field(
        None, description="memory is the host memory request of each pod; left out, it is planned."
    )
    shared_memory: Quantity | None = Field(
        None, description="sharedMemory is the size of /dev/shm; left out, it is planned from the number of ranks."
    )
    resource_group: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        description="resourceGroup keeps the service on nodes labelled serving.windlass.dev/resource-group with it.",
    )


class LookaheadSpec(ApiModel):
    """The lookahead cache: drafts taken from earlier text, checked by the model, so that the output stays the same."""

    enabled: bool = Field(False, description="enabled switches the lookahead cache on.")
    speculative_tokens: int | None = Field(
        None, ge=1, le=64, description="speculativeTokens is the most tokens drafted at a time; left out: 6."
    )


def _missing(value: object) -> bool:
    return value is None


class SpeculationSpec(ApiModel):
    """Drafts by a model or a head of its own, checked by the served model, so that the output stays the same."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*SPECULATION_RULES))

    method: str = Field(
        "draft_model",
        min_length=1,
        max_length=64,
        json_schema_extra=schema_extra(*SPECULATION_METHOD_RULES),
        description="method is how tokens are drafted: draft_model, a smaller model of the same vocabulary, or by a "
        "head that was trained for the served model: eagle, eagle3, medusa.",
    )
    source: ModelSource = Field(
        description="source is the volume that holds the draft model or the head: exactly one kind."
    )
    tokens: int = Field(4, ge=1, le=64, description="tokens is the number of tokens drafted at a time.")
    runs_on: Literal["gpu", "cpu"] | None = Field(
        None,
        exclude_if=_missing,
        description="runsOn is where the draft model runs: gpu, or cpu for the host's cores beside the GPU, for a "
        "small model of method draft_model; left out: gpu.",
    )


def _empty(value: object) -> bool:
    return not value


MediaDomain = Annotated[
    str, Field(min_length=1, max_length=253, json_schema_extra=schema_extra(*HOST_RULES, *MEDIA_DOMAIN_RULES))
]


class EngineSpec(ApiModel):
    """How the engine runs; everything left out is planned or the engine's default."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*ENGINE_RULES))

    quantization: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        json_schema_extra=schema_extra(*QUANTIZATION_RULES),
        description="quantization is the method: fp8, ifq, ifq_nf4, smoothquant, auto, none, or one of vLLM's own.",
    )
    lookahead: LookaheadSpec = Field(
        default_factory=LookaheadSpec, description="lookahead drafts tokens from earlier text and checks them."
    )
    speculation: SpeculationSpec | None = Field(
        None,
        exclude_if=_missing,
        description="speculation drafts tokens by a model or a head of its own and checks them.",
    )
    max_model_len: int | None = Field(
        None,
        ge=1,
        le=16777216,
        description="maxModelLen is the context length in tokens; left out: the model's own, cut to 8192.",
    )
    dtype: Literal["auto", "float16", "bfloat16", "float32"] | None = Field(
        None, description="dtype is the number format of weights and activations; left out: float16."
    )
    gpu_memory_utilization_percent: int = Field(
        90,
        ge=10,
        le=99,
        description="gpuMemoryUtilizationPercent is the share of each GPU's memory that the engine takes.",
    )
    enforce_eager: bool = Field(False, description="enforceEager switches CUDA graphs off: less memory, slower.")
    tensor_parallel_size: int | None = Field(
        None,
        ge=1,
        le=GPUS_MAX,
        description="tensorParallelSize is the number of GPUs that share each layer; left out, it is planned.",
    )
    pipeline_parallel_size: int | None = Field(
        None,
        ge=1,
        le=GPUS_MAX,
        description="pipelineParallelSize is the number of stages that the layers are cut into; left out: planned.",
    )
    sequence_parallel_size: int | None = Field(
        None,
        ge=1,
        le=GPUS_MAX,
        exclude_if=_missing,
        description="sequenceParallelSize is the number of GPUs that share each long prompt; GPUs = TP × PP × this.",
    )
    workers: int = Field(
        1, ge=1, le=64, description="workers is the number of equal engines in one pod; each takes the planned GPUs."
    )
    max_concurrency: int | None = Field(
        None, ge=1, le=65536, description="maxConcurrency is the most requests at a time for each worker; more wait."
    )
    max_num_seqs: int | None = Field(
        None, ge=1, le=65536, description="maxNumSeqs is the most sequences in one step; left out: 256."
    )
    max_num_batched_tokens: int | None = Field(
        None,
        ge=1,
        le=16777216,
        description="maxNumBatchedTokens is the most tokens in one step; left out: the engine's default.",
    )
    scheduler_steps: int = Field(
        1, ge=1, le=64, description="schedulerSteps is accepted for older setups; above 1 it excludes lookahead."
    )
    prefix_caching: bool | None = Field(
        None, description="prefixCaching reuses the cache of equal beginnings; left out: on where the GPU allows it."
    )
    prefix_offload: PrefixOffloadSpec = Field(
        default_factory=PrefixOffloadSpec,
        exclude_if=is_plain,
        description="prefixOffload keeps what the prefix cache evicts in host memory.",
    )
    kv_cache_dtype: Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"] = Field(
        "auto", description="kvCacheDtype is the number format of the KV cache; auto is the model's own."
    )
    trust_remote_code: bool = Field(
        True, description="trustRemoteCode lets the checkpoint bring Python code of its own, which then runs."
    )
    conv_template: str = Field(
        "", max_length=128, description="convTemplate names the chat template; empty: matched by the model's name."
    )
    seed: int | None = Field(None, ge=0, le=4294967295, description="seed is the engine's random seed.")
    ignore_engine_limits: bool = Field(
        False,
        description="ignoreEngineLimits plans and starts what the pinned engine is known not to run; the plan says so.",
    )
    allowed_media_domains: list[MediaDomain] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=WHOLE_LIST,
        exclude_if=_empty,
        description="allowedMediaDomains are hosts that images, audio and video may be fetched from; empty: none.",
    )
    memory_cache: bool = Field(
        True, description="memoryCache reads the weights ahead into the page cache: a faster start from shared volumes."
    )


class LicenseSpec(ApiModel):
    """Whether serving needs a license, and who grants it."""

    required: bool = Field(True, description="required makes each replica wait for a license before it serves.")
    addresses: list[Annotated[str, Field(min_length=1, max_length=512, pattern=r"^https?://[^,\s]+$")]] = Field(
        default_factory=list,
        max_length=8,
        json_schema_extra=WHOLE_LIST,
        description="addresses are license servers' base URLs, tried in order; empty means the default addresses.",
    )


Word = Annotated[str, Field(max_length=16384)]


class LLMServiceSpec(ApiModel):
    """What the user asks for."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*SPEC_RULES))

    model: ModelSpec = Field(description="model is what to serve: its name and where its checkpoint lies.")
    image: ImageSpec = Field(
        default_factory=ImageSpec, description="image is the serving image; every part has a default."
    )
    deployment: DeploymentSpec = Field(
        default_factory=DeploymentSpec, description="deployment says how the pods are laid out and replaced."
    )
    replicas: int = Field(1, ge=0, le=1000, description="replicas is the number of equal copies of the server.")
    suspend: bool = Field(
        False,
        description="suspend takes the pods and their GPUs away and keeps everything else; false brings them back.",
    )
    resources: ResourcesSpec = Field(
        default_factory=ResourcesSpec,
        description="resources are the GPUs, CPU and memory of a replica; what is left out is planned.",
    )
    engine: EngineSpec = Field(
        default_factory=EngineSpec, description="engine tunes the engine; what is left out is planned."
    )
    command: list[Word] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=WHOLE_LIST,
        description="command replaces the start command; `run …` keeps Windlass's own with these flags added.",
    )
    args: list[Word] = Field(
        default_factory=list,
        max_length=256,
        json_schema_extra=WHOLE_LIST,
        description="args are added after the planned flags, so they win.",
    )
    env: list[EnvVar] = Field(
        default_factory=list,
        max_length=128,
        json_schema_extra=list_map("name"),
        description="env are environment variables of the serving container; they win over Windlass's own.",
    )
    expose: ExposeSpec = Field(
        default_factory=ExposeSpec, description="expose says who may call the service, and from where."
    )
    license: LicenseSpec = Field(
        default_factory=LicenseSpec, description="license says whether and where a license is asked for."
    )
    cache: CacheSpec = Field(
        default_factory=CacheSpec,
        description="cache is the writable volume of compiled kernels, quantized weights and the lookahead cache.",
    )
    scheduling: SchedulingSpec = Field(
        default_factory=SchedulingSpec, description="scheduling says where the pods may run, and before whom."
    )
    pod_template: PodTemplateSpec = Field(
        default_factory=PodTemplateSpec,
        description="podTemplate is laid over the serving pods, where it raises no privilege.",
    )


class Metadata(ApiModel):
    """The part of Kubernetes' object metadata that the operator reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class LLMService(ApiModel):
    """LLMService serves one language model from a directory on a volume as an OpenAI-compatible service."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*NAME_RULES))

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: Metadata = Field(default_factory=Metadata)
    spec: LLMServiceSpec = Field(description="spec is what is wanted.")
    status: LLMServiceStatus = Field(
        default_factory=LLMServiceStatus, description="status is what the operator saw and did."
    )
