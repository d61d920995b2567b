"""The host memory that a spec's own flags ask for: KV cache and weights offloaded, images, and the lookahead cache.

`host.py` adds it to what every pod needs. The flags are the engine's, so only `family: vllm` has them. Pure.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from windlass_api.plan.model import Refusal
from windlass_api.plan.quantity import GIB, gib
from windlass_api.plan.start import PREFIX_OFFLOAD, Start

KV_SIZE, KV_BACKEND, KV_TRANSFER = "--kv-offloading-size", "--kv-offloading-backend", "--kv-transfer-config"
KV_BYTES = "cpu_bytes_to_use"  # of a connector in --kv-transfer-config
KV_ELSEWHERE = "lmcache"  # a backend whose memory is that of a server of its own
PREFIX, PREFIX_MIB = f"--{PREFIX_OFFLOAD}", "--prefix-offload-mib"  # of all engines of a pod together
WEIGHTS_GIB, GROUP, GROUP_PART = "--cpu-offload-gb", "--offload-group-size", "--offload-num-in-group"
PROCESSOR_GIB = "--mm-processor-cache-gb"  # of each process that has one: the API and each engine
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


def kv_offload_gib(start: Start) -> float:
    """The prefix cache that the flags keep in host memory for one engine, over all its ranks; it lies in /dev/shm."""
    if not start.is_vllm or start.settings.engine_value(KV_BACKEND) == KV_ELSEWHERE:
        return 0.0
    prefixes_gib = start.prefix_mib / 1024 / start.workers
    named_gib = _number(start.settings.engine_value(KV_SIZE)) or prefixes_gib
    return min(ASKED_MAX_GIB, named_gib or _connector_bytes(start.settings.engine_value(KV_TRANSFER)) / GIB)


def weights_offload_gib(start: Start, weights_gib: float, gpus: int) -> float:
    """The weights of one pod, on so many GPUs, that stay in host memory; never more than it has.

    The CPU engine has all of them there already.
    """
    if not start.is_vllm or not gpus:
        return 0.0
    group = _number(start.settings.engine_value(GROUP))
    part = min(1.0, (_number(start.settings.engine_value(GROUP_PART)) or 1) / group) if group else 0.0
    return min(weights_gib, max(weights_gib * part, _number(start.settings.engine_value(WEIGHTS_GIB)) * gpus))


def processor_cache_gib(start: Start) -> float:
    """The processed images of one process, where a flag says how much; the engine's own 4 GiB are not planned for."""
    if not start.is_vllm:
        return 0.0
    return min(ASKED_MAX_GIB, _number(start.settings.engine_value(PROCESSOR_GIB)))


def lookahead_gib(start: Start, running: Running) -> float:
    """The lookahead integration of one engine: the cache's table, and the indexes of its running requests.

    A draft model without the cache has the indexes alone.
    """
    indexes = running.requests * (running.tokens * LOOKAHEAD_TOKEN_BYTES + LOOKAHEAD_REQUEST_BYTES)
    return (LOOKAHEAD_TABLE_GIB if start.looks_ahead else 0.0) + indexes / GIB


def too_small_shm(start: Start, workers: int) -> Refusal | None:
    """Why a size that the spec gives to /dev/shm does not hold the KV cache that its flags put there."""
    size, asked_gib = start.spec.resources.shared_memory, kv_offload_gib(start) * workers
    if size is None or gib(size) > asked_gib or not asked_gib:
        return None
    return Refusal(
        "SharedMemoryTooSmall",
        f"spec.resources.sharedMemory {size} does not hold the {asked_gib:g} GiB of KV cache offloaded to /dev/shm",
        f"leave spec.resources.sharedMemory out, or set it to {math.ceil(asked_gib) + 1}Gi or more",
    )


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
