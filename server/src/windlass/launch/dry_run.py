"""Whether the start takes full steps before the KV cache is sized, and by which worker of the engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass_sizing import engine_flags

from windlass.errors import UsageError
from windlass.launch import lookahead, prefix_offload, sequence_parallel
from windlass.launch.inputs import LaunchInputs

SWITCH = "conservative-dry-run"
WORKER_FLAG = lookahead.WORKER_FLAG
WORKER = "windlass.engine.dry_run.worker.ConservativeDryRun"
WITH_DRY_RUN = {
    lookahead.DEVICE_WORKER: "windlass.engine.lookahead.vllm_gpu.DryRunDeviceWorker",
    sequence_parallel.WORKER: "windlass.engine.sequence_parallel.worker.DryRunSequenceParallelWorker",
}
"""For each worker of another feature, the one that does both."""
SIZES = ("--kv-cache-memory-bytes", "--num-gpu-blocks-override")
"""Flags of the engine that give the KV cache a size whatever a profile finds."""
ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""Settings of torch's allocator; torch 2.11 and 2.13 read the first of them that is there, and no other."""
SEGMENTS = {ALLOCATOR[0]: "expandable_segments:True"}
"""Torch then joins free pieces of a card's memory, so that batches of many sizes leave no gaps."""
RANKS = ("tensor-parallel-size", "pipeline-parallel-size", sequence_parallel.SIZE, "worker-num")
ALONE = frozenset(
    {
        *(sequence_parallel.ENGINES_SIZE, "-pcp", "--data-parallel-size", "-dp"),  # ranks share memory by IPC handles
        *("--enable-sleep-mode", "--enable-cumem-allocator"),  # an allocator of their own
        *prefix_offload.ENGINES_OWN,  # vLLM 0.32 refuses any KV connector beside it: some register memory
        *("--ec-transfer-config", "--weight-transfer-config"),  # they register or share memory too
        "--config",  # a file may hold any of them
    }
)
"""Flags of the engine beside which torch's allocator stays as it is."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """All words that the features have for the engine's command line, variables of its processes, and what to tell."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def decide(start: LaunchInputs, arguments: Sequence[str]) -> DryRun:
    """The other features' words, with a worker that takes the dry run; UsageError for what contradicts itself."""
    words = tuple(arguments)
    if not start.value(SWITCH):
        return DryRun(words)
    if start.machine.engine == "cpu":
        return DryRun(
            words, notes=(f"--{SWITCH} has no effect on the CPU: the engine's cache has a size of its own there",)
        )
    if sentence := _contradiction(start):
        raise UsageError(sentence)
    variables = SEGMENTS if _can_set_allocator(start, words) else {}
    if WORKER_FLAG in words:
        at = words.index(WORKER_FLAG) + 1
        return DryRun((*words[:at], WITH_DRY_RUN[words[at]], *words[at + 1 :]), variables)
    return DryRun((*words, WORKER_FLAG, WORKER), variables)


def _can_set_allocator(start: LaunchInputs, arguments: Sequence[str]) -> bool:
    """Whether torch's allocator can be set: one rank, nothing that holds memory its own way, no setting of the user."""
    if start.machine.group is not None or any(start.whole(name, 1) > 1 for name in RANKS):
        return False
    return not (_flags((*start.words, *arguments)) & ALONE or any(start.environment.get(name) for name in ALLOCATOR))


def _contradiction(start: LaunchInputs) -> str:
    given = _flags(start.words)
    if WORKER_FLAG in given:
        return f"--{SWITCH} and {WORKER_FLAG} both name the engine's worker; leave one of the two out"
    size = next((flag for flag in SIZES if flag in given), "")
    return f"--{SWITCH} and {size} both size the KV cache; leave one of the two out" if size else ""


def _flags(words: Sequence[str]) -> set[str]:
    """The engine's flags among the words, by their whole names."""
    engine = engine_flags.record()
    return {engine.flag_of(word) for word in words if word.startswith("-")}
