"""The host memory that a spec's own flags ask for: KV cache and weights offloaded, images, and the lookahead cache.

`host.py` adds it to what every pod needs. The flags are the engine's, so only `family: vllm` has them. Pure.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from windlass_sizing.settings.in_force import Settings
from windlass_sizing.settings.setting import DEFAULT

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Refusal
from windlass_api.plan.overrides import PREFIX_OFFLOAD, engine_in_force, runs_windlass
from windlass_api.plan.quantity import GIB, gib

KV_SIZE, KV_BACKEND, KV_TRANSFER = "--kv-offloading-size", "--kv-offloading-backend", "--kv-transfer-config"
KV_BYTES = "cpu_bytes_to_use"  # of a connector in --kv-transfer-config
KV_ELSEWHERE = "lmcache"  # a backend whose memory is that of a server of its own
PREFIX, PREFIX_MIB = f"--{PREFIX_OFFLOAD}", "--prefix-offload-mib"  # of all engines of a pod together
WEIGHTS_GIB, GROUP, GROUP_PART = "--cpu-offload-gb", "--offload-group-size", "--offload-num-in-group"
PROCESSOR_GIB = "--mm-processor-cache-gb"  # of each process that has one: the API and each engine
LOOKAHEAD, LOOKAHEAD_DIRECTORY = "use-lookahead", "lookahead-cache-config-dir"
DRAFTS_ON_CPU = "cpu-draft-worker"
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


def kv_offload_gib(spec: LLMServiceSpec, settings: Settings) -> float:
    """The prefix cache that the flags keep in host memory for one engine, over all its ranks; it lies in /dev/shm."""
    if spec.image.family != "vllm" or settings.engine_value(KV_BACKEND) == KV_ELSEWHERE:
        return 0.0
    prefixes_gib = prefix_mib(settings) / 1024 / engine_in_force(spec, settings).workers
    named_gib = _number(settings.engine_value(KV_SIZE)) or prefixes_gib
    return min(ASKED_MAX_GIB, named_gib or _connector_bytes(settings.engine_value(KV_TRANSFER)) / GIB)


def weights_offload_gib(spec: LLMServiceSpec, settings: Settings, weights_gib: float, gpus: int) -> float:
    """The weights of one pod, on so many GPUs, that stay in host memory; never more than it has.

    The CPU engine has all of them there already.
    """
    if spec.image.family != "vllm" or not gpus:
        return 0.0
    group = _number(settings.engine_value(GROUP))
    part = min(1.0, (_number(settings.engine_value(GROUP_PART)) or 1) / group) if group else 0.0
    return min(weights_gib, max(weights_gib * part, _number(settings.engine_value(WEIGHTS_GIB)) * gpus))


def processor_cache_gib(spec: LLMServiceSpec, settings: Settings) -> float:
    """The processed images of one process, where a flag says how much; the engine's own 4 GiB are not planned for."""
    if spec.image.family != "vllm":
        return 0.0
    return min(ASKED_MAX_GIB, _number(settings.engine_value(PROCESSOR_GIB)))


def lookahead_gib(settings: Settings, running: Running) -> float:
    """The lookahead integration of one engine: the cache's table, and the indexes of its running requests.

    A draft model without the cache has the indexes alone.
    """
    indexes = running.requests * (running.tokens * LOOKAHEAD_TOKEN_BYTES + LOOKAHEAD_REQUEST_BYTES)
    return (LOOKAHEAD_TABLE_GIB if looks_ahead(settings) else 0.0) + indexes / GIB


def too_small_shm(spec: LLMServiceSpec, settings: Settings, workers: int) -> Refusal | None:
    """Why a size that the spec gives to /dev/shm does not hold the KV cache that its flags put there."""
    size, asked_gib = spec.resources.shared_memory, kv_offload_gib(spec, settings) * workers
    if size is None or gib(size) > asked_gib or not asked_gib:
        return None
    return Refusal(
        "SharedMemoryTooSmall",
        f"spec.resources.sharedMemory {size} does not hold the {asked_gib:g} GiB of KV cache offloaded to /dev/shm",
        f"leave spec.resources.sharedMemory out, or set it to {math.ceil(asked_gib) + 1}Gi or more",
    )


def keeps_prefixes(settings: Settings) -> bool:
    """Whether evicted prefixes are to be kept: by the flag, its variable, or else the field."""
    return settings.value(PREFIX_OFFLOAD) is True


def prefix_mib(settings: Settings) -> int:
    """The size that flags or variables give to evicted prefixes; 0 where neither they nor the field keep them."""
    return settings.whole("prefix-offload-mib") if keeps_prefixes(settings) else 0


def looks_ahead(settings: Settings) -> bool:
    """As the server decides: a directory of its configuration counts where nothing switches lookahead on or off."""
    if settings.source(LOOKAHEAD) != DEFAULT:
        return settings.value(LOOKAHEAD) is True
    return settings.is_given(LOOKAHEAD_DIRECTORY)


def drafts_on_cpu(spec: LLMServiceSpec, settings: Settings) -> bool:
    """Whether the draft model of the spec runs on the host's cores."""
    return spec.engine.speculation is not None and runs_windlass(spec) and settings.value(DRAFTS_ON_CPU) is True


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
