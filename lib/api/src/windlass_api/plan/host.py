"""The CPU and host memory that each pod of a replica asks for, part by part.

Host memory holds the weights while they are loaded and is larger than the video memory in use: what the plan needs of
the cards, or what the engine takes of them where nodes have host memory to spare (ADR 0043). CPU is in proportion to
cards: one busy core for each rank. What the spec says wins. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass_sizing.placement.api_processes import FURTHER_GIB
from windlass_sizing.placement.host_draft import CORES, CORES_MAX

from windlass_api.plan import api_processes
from windlass_api.plan.offload import (
    Running,
    kv_offload_gib,
    lookahead_gib,
    processor_cache_gib,
    weights_offload_gib,
)
from windlass_api.plan.prefix_offload import MIB_A_GIB, PART, SHM_PART, WHY, kept_gib
from windlass_api.plan.quantity import cores, gib
from windlass_api.plan.start import Start

HEADROOM = 0.1  # of weights, and of what they and the engine take beside them
PROCESS_GIB = 1  # of one process: 0.4 to 0.6 GiB after its imports (vLLM 0.32.0, ADR 0012), its context and buffers
SHM_BASE_GIB = 1  # counted in the container's memory, as it is a memory-backed volume
SHM_PER_RANK_GIB = 1
ROUNDING_DIGITS = 6  # of GiB: a sum of shares that is whole stays whole


@dataclass(frozen=True, slots=True)
class Load:
    """What one pod runs; figures in GiB are of all its engines together."""

    weights_gib: float
    running: Running  # of one engine
    video_gib: float = 0.0  # of its GPUs: what the plan needs of them, or what the engine takes
    takes_all: bool = False  # whether it is what the engine takes
    cache_gib: float = 0.0  # on the CPU: the KV cache
    activations_gib: float = 0.0  # on the CPU
    beside_gib: float = 0.0  # on the CPU: adapters and a draft model
    host_draft_gib: float = 0.0  # beside GPUs: draft models on the host's cores
    captures_draft: bool = False  # whether a draft model on the card runs by our integration
    draft_threads: int | None = None  # cores of each engine that draft, where a flag of the spec says so
    gpus: int = 0
    engines: int = 1
    nodes: int = 1  # of the replica; the pods of all ask for what the first one needs (ADR 103)
    several_apis: bool = False  # whether the plan may choose more than one API process
    apis: int = 1

    @property
    def ranks(self) -> int:
        """Processes that compute: one for each GPU, or each engine on the CPU."""
        return self.gpus or self.engines


@dataclass(frozen=True, slots=True)
class Part:
    """One named part of a pod's host memory."""

    name: str
    gib: float
    why: str


@dataclass(frozen=True, slots=True)
class Host:
    """Kubernetes quantities for one pod, and the parts that its memory is the sum of."""

    cpu: str
    memory: str
    shm: str
    parts: tuple[Part, ...]
    because: str
    prefix_offload_mib: int = 0
    draft_threads: int = 0  # cores of each engine that draft
    cpu_because: str = ""  # where something drafts
    api_processes: int = 1  # that the plan chose
    api_because: str = ""

    @property
    def figures(self) -> tuple[tuple[str, float], ...]:
        """The parts for a status: names and GiB."""
        return tuple((part.name, part.gib) for part in self.parts)


def host_for(start: Start, load: Load) -> Host:
    """What a pod of this service asks of its node for this load."""
    requested = start.spec.resources
    threads = _draft_threads(requested.cpu, load)
    cpu = requested.cpu or str(max(1, load.ranks + threads * load.engines))
    drafting = (threads + 1) * load.engines if integrates_drafts(start, load) else 0
    counted = api_processes.cores_of(cpu, load.gpus, load.engines, drafting)
    most = api_processes.chosen(start, counted) if load.several_apis else 1
    apis, sized = _with_apis(start, load, most)
    parts, shm, kept = sized.parts, sized.shm, sized.kept_gib
    summed_gib = total_gib(parts)
    return Host(
        cpu=cpu,
        memory=requested.memory or f"{summed_gib}Gi",
        shm=shm,
        parts=parts,
        because=_sentence(requested.memory, summed_gib, parts),
        prefix_offload_mib=round(kept * MIB_A_GIB),
        draft_threads=threads,
        cpu_because=_draft_words(cpu, threads, load) if threads else "",
        api_processes=apis,
        api_because=api_processes.sentence(start, apis, counted) if apis > 1 else "",
    )


@dataclass(frozen=True, slots=True)
class _Sized:
    """A pod's memory: its parts, /dev/shm, and what is kept there of evicted prefixes."""

    parts: tuple[Part, ...]
    shm: str
    kept_gib: float


def _with_apis(start: Start, load: Load, most: int) -> tuple[int, _Sized]:
    """The most API processes that the spec's own memory holds, and the memory; no more than `most` by choice."""
    apis, memory = most, start.spec.resources.memory
    sized = _sized(start, replace(load, apis=max(apis, api_processes.given(start))))
    while apis > 1 and memory and total_gib(sized.parts) > gib(memory):
        apis -= 1
        sized = _sized(start, replace(load, apis=apis))
    return apis, sized


def _sized(start: Start, load: Load) -> _Sized:
    flagged_gib = kv_offload_gib(start) * load.engines
    base_gib = sum(part.gib for part in _parts(start, load, shm_gib(load.ranks)))
    asked_gib = kept_gib(start, base_gib)
    kept = asked_gib if load.gpus else 0.0  # the CPU engine does without, and says so
    offloaded_gib = flagged_gib + kept
    shm = start.spec.resources.shared_memory or f"{math.ceil(shm_gib(load.ranks) + offloaded_gib)}Gi"
    every = _parts(start, load, gib(shm) - offloaded_gib, flagged_gib, kept)
    return _Sized(tuple(part for part in every if part.gib > 0), shm, kept)


def _draft_threads(cpu: str | None, load: Load) -> int:
    """Cores of each engine that draft: by the flag, else what the pod asks for, less one for each rank."""
    if not load.host_draft_gib:
        return 0
    if load.draft_threads:
        return load.draft_threads
    free = CORES * load.engines if cpu is None else math.floor(min(CORES_MAX, cores(cpu))) - load.ranks
    return max(1, free // load.engines)


def _draft_words(cpu: str, threads: int, load: Load) -> str:
    if load.nodes > 1:
        alike = "on each node, as all pods of a group ask for the same"
        return f"processors {cpu} {alike}: {threads} draft in the first pod, and one works for each GPU"
    each = " of each engine" if load.engines > 1 else ""
    return f"processors {cpu}: {threads}{each} draft, and one works for each GPU"


def total_gib(parts: tuple[Part, ...]) -> int:
    """The parts' sum, rounded up to whole GiB."""
    return math.ceil(round(sum(part.gib for part in parts), ROUNDING_DIGITS))


def _parts(
    start: Start,
    load: Load,
    shared_gib: float,
    flagged_gib: float = 0.0,
    kept: float = 0.0,
) -> Iterator[Part]:
    """Every part, also those that are 0 for this service."""
    reading = "read ahead into the page cache" if start.spec.engine.memory_cache else "while the engine loads them"
    beyond_gib = max(0.0, load.video_gib - load.weights_gib)
    served_gib = load.weights_gib + beyond_gib + load.cache_gib + load.activations_gib
    held_gib = served_gib + load.beside_gib + load.host_draft_gib
    yield Part("weights", load.weights_gib, reading)
    whole = ", of what the engine takes of its GPUs" if load.takes_all else ""
    yield Part("video memory in use", beyond_gib, f"beyond the weights{whole}")
    yield Part("KV cache", load.cache_gib, "of the engine on the CPU")
    yield Part("activations", load.activations_gib, "of the engine on the CPU")
    yield Part("adapters and draft model", load.beside_gib, "served beside the model")
    where = ", in the first pod" if load.nodes > 1 else ""
    yield Part("draft model", load.host_draft_gib, f"on the host's cores{where}")
    yield Part("headroom", held_gib * HEADROOM, f"{HEADROOM:.0%} of these")
    processes = _processes(load)
    yield Part("engine", processes * PROCESS_GIB, f"{processes} processes")
    yield Part("API processes", (load.apis - 1) * FURTHER_GIB, f"{load.apis - 1} beside the first")
    yield Part(SHM_PART, shared_gib, "the volume at /dev/shm")
    yield Part("KV cache offload", flagged_gib, "in /dev/shm, by the flags of the spec")
    yield Part(PART, kept, WHY)
    kept_gib = weights_offload_gib(start, load.weights_gib, load.gpus)
    yield Part("weights offload", kept_gib, "kept in host memory by the flags of the spec")
    images_gib = processor_cache_gib(start) * (load.apis + load.engines)
    yield Part("processor cache", images_gib, "of images and other inputs, by the flags of the spec")
    if integrates_drafts(start, load):
        yield Part("lookahead", lookahead_gib(start, load.running) * load.engines, "its tables")


def integrates_drafts(start: Start, load: Load) -> bool:
    """Whether a thread of each engine drafts, for the cache or for a draft model."""
    return start.is_vllm and (start.looks_ahead or start.drafts_on_cpu or load.captures_draft)


def shm_gib(ranks: int) -> int:
    """What /dev/shm needs for so many ranks, without a cache in it."""
    return SHM_BASE_GIB + (SHM_PER_RANK_GIB * ranks if ranks > 1 else 0)


def _processes(load: Load) -> int:
    """One API, a core for each engine, a coordinator of several engines; several GPUs of one have a process each."""
    coordinator = 1 if load.engines > 1 else 0
    return 1 + coordinator + load.engines + (load.gpus if load.gpus > load.engines else 0)


def _sentence(memory: str | None, summed_gib: int, parts: tuple[Part, ...]) -> str:
    listed = " + ".join(f"{part.name} {part.gib:.2f} ({part.why})" for part in parts)
    if memory is None:
        return f"host memory {summed_gib}Gi: {listed} GiB"
    if gib(memory) >= summed_gib:
        return f"host memory {memory} by spec.resources.memory"
    return f"host memory {memory} by spec.resources.memory, less than the planned {summed_gib}Gi: {listed} GiB"
