"""The host memory that a spec's own flags ask for: KV cache and weights offloaded, images, and the lookahead cache.

`host.py` adds it to what every pod needs. The flags are the engine's, so only `family: vllm` has them. Pure.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Refusal
from windlass_api.plan.overrides import engine_in_force, last_given, runs_windlass, switched
from windlass_api.plan.quantity import GIB, gib

KV_SIZE, KV_BACKEND, KV_TRANSFER = "--kv-offloading-size", "--kv-offloading-backend", "--kv-transfer-config"
KV_BYTES = "cpu_bytes_to_use"  # of a connector in --kv-transfer-config
KV_ELSEWHERE = "lmcache"  # a backend whose memory is that of a server of its own
PREFIX, PREFIX_VARIABLE = "--enable-prefix-cache-offload", "ENABLE_PREFIX_CACHE_OFFLOAD"
PREFIX_MIB, PREFIX_MIB_VARIABLE = "--prefix-offload-mib", "PREFIX_OFFLOAD_MIB"  # of all engines of a pod together
WEIGHTS_GIB, GROUP, GROUP_PART = "--cpu-offload-gb", "--offload-group-size", "--offload-num-in-group"
PROCESSOR_GIB = "--mm-processor-cache-gb"  # of each process that has one: the API and each engine
LOOKAHEAD, LOOKAHEAD_VARIABLE = "--use-lookahead", "USE_LOOKAHEAD"
LOOKAHEAD_DIRECTORY = "--lookahead-cache-config-dir"
DRAFTS_ON_CPU, DRAFTS_ON_CPU_VARIABLE = "--cpu-draft-worker", "CPU_DRAFT_WORKER"
GPU, CPU = "gpu", "cpu"  # where a draft model runs
ASKED_MAX_GIB = 2.0**20  # 1 PiB, more than any node has: keeps a mistyped figure a quantity that Kubernetes reads

# The lookahead cache of one engine (docs/reference/lookahead.md, "Memory"); a contract test holds them to the cache.
LOOKAHEAD_TABLE_GIB = 5_000_000 * 20 / GIB  # the default cache_size, 20 bytes a pair
LOOKAHEAD_TOKEN_BYTES = 400  # of the index of a running request, for each of its tokens
LOOKAHEAD_REQUEST_BYTES = 100_000  # of an index without tokens


@dataclass(frozen=True, slots=True)
class Running:
    """The most that one engine serves at a time."""

    requests: int
    tokens: int  # of each request


def kv_offload_gib(spec: LLMServiceSpec) -> float:
    """The prefix cache that the flags keep in host memory for one engine, over all its ranks; it lies in /dev/shm."""
    if spec.image.family != "vllm" or last_given(spec, KV_BACKEND) == KV_ELSEWHERE:
        return 0.0
    asked = _number(last_given(spec, KV_SIZE)) or prefix_mib(spec) / 1024 / engine_in_force(spec).workers
    return min(ASKED_MAX_GIB, asked or _connector_bytes(last_given(spec, KV_TRANSFER)) / GIB)


def weights_offload_gib(spec: LLMServiceSpec, weights_gib: float, gpus: int) -> float:
    """The weights of one pod, on so many GPUs, that stay in host memory; never more than it has.

    The CPU engine has all of them there already.
    """
    if spec.image.family != "vllm" or not gpus:
        return 0.0
    group = _number(last_given(spec, GROUP))
    part = min(1.0, (_number(last_given(spec, GROUP_PART)) or 1) / group) if group else 0.0
    return min(weights_gib, max(weights_gib * part, _number(last_given(spec, WEIGHTS_GIB)) * gpus))


def processor_cache_gib(spec: LLMServiceSpec) -> float:
    """The processed images of one process, where a flag says how much; the engine's own 4 GiB are not planned for."""
    if spec.image.family != "vllm":
        return 0.0
    return min(ASKED_MAX_GIB, _number(last_given(spec, PROCESSOR_GIB)))


def lookahead_gib(spec: LLMServiceSpec, running: Running) -> float:
    """The lookahead integration of one engine: the cache's table, and the indexes of its running requests.

    A draft model without the cache has the indexes alone.
    """
    indexes = running.requests * (running.tokens * LOOKAHEAD_TOKEN_BYTES + LOOKAHEAD_REQUEST_BYTES)
    return (LOOKAHEAD_TABLE_GIB if looks_ahead(spec) else 0.0) + indexes / GIB


def too_small_shm(spec: LLMServiceSpec, workers: int) -> Refusal | None:
    """Why a size that the spec gives to /dev/shm does not hold the KV cache that its flags put there."""
    size, asked_gib = spec.resources.shared_memory, kv_offload_gib(spec) * workers
    if size is None or gib(size) > asked_gib or not asked_gib:
        return None
    return Refusal(
        "SharedMemoryTooSmall",
        f"spec.resources.sharedMemory {size} does not hold the {asked_gib:g} GiB of KV cache offloaded to /dev/shm",
        f"leave spec.resources.sharedMemory out, or set it to {math.ceil(asked_gib) + 1}Gi or more",
    )


def flag_keeps_prefixes(spec: LLMServiceSpec) -> bool | None:
    """What the flag or its variable says; None where neither is given."""
    return switched(spec, PREFIX, PREFIX_VARIABLE)


def keeps_prefixes(spec: LLMServiceSpec) -> bool:
    """Whether evicted prefixes are to be kept: by the flag, its variable, or else the field."""
    switch = flag_keeps_prefixes(spec)
    return spec.engine.prefix_offload.enabled and runs_windlass(spec) if switch is None else switch


def prefix_mib(spec: LLMServiceSpec) -> float:
    """The size that flags or variables give to evicted prefixes; 0 where neither they nor the field keep them."""
    return _number(last_given(spec, PREFIX_MIB, PREFIX_MIB_VARIABLE)) if keeps_prefixes(spec) else 0.0


def looks_ahead(spec: LLMServiceSpec) -> bool:
    """As the server decides: the flag, then the field, then the variable, then a directory of its configuration."""
    flag = switched(spec, LOOKAHEAD)
    if flag is not None or spec.engine.lookahead.enabled:
        return flag is not False
    variable = switched(spec, LOOKAHEAD, LOOKAHEAD_VARIABLE)
    return last_given(spec, LOOKAHEAD_DIRECTORY) is not None if variable is None else variable


def drafts_on_cpu(spec: LLMServiceSpec) -> bool:
    """Whether the draft model of the spec runs on the host's cores: by the flag, then the field, then the variable."""
    if spec.engine.speculation is None or not runs_windlass(spec):
        return False
    flag, field = switched(spec, DRAFTS_ON_CPU), spec.engine.speculation.runs_on
    if flag is not None or field is not None:
        return field == CPU if flag is None else flag
    return switched(spec, DRAFTS_ON_CPU, DRAFTS_ON_CPU_VARIABLE) or False


def _connector_bytes(text: str | None) -> float:
    """All bytes that the connectors of a KV transfer configuration take; a connector may hold others."""
    try:
        return _bytes_within(json.loads(text or "{}"))
    except (ValueError, RecursionError):
        return 0.0  # the engine refuses it with a sentence of its own


def _bytes_within(found: object) -> float:
    if isinstance(found, list):
        return sum(map(_bytes_within, found))
    if not isinstance(found, dict):
        return 0.0
    own = found.get(KV_BYTES)
    rest = sum(_bytes_within(value) for value in found.values())
    return rest + (_number(str(own)) if isinstance(own, int | float | str) else 0.0)


def _number(text: str | None) -> float:
    """A figure above 0; 0 for any other text, which the engine refuses with a sentence of its own."""
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if 0 < value < math.inf else 0.0
