"""Whether long prompts are split over GPUs, and by which words of the engine. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass_sizing import engine_flags

from windlass.errors import UsageError
from windlass.launch import host_drafts, lookahead, prefix_offload, sampling
from windlass.launch.inputs import LaunchInputs

SIZE = "sequence-parallel-size"
ENGINES_SIZE, BACKEND, WORKER_FLAG = "--prefill-context-parallel-size", "--attention-backend", lookahead.WORKER_FLAG
CUSTOM, WORKER = "CUSTOM", "windlass.engine.sequence_parallel.worker.SequenceParallelWorker"
"""The engine's name for an attention of others, which the worker's module registers."""
ENGINES_OWN = frozenset(
    {
        *(ENGINES_SIZE, "-pcp", BACKEND, WORKER_FLAG, "--attention-config", "--decode-context-parallel-size", "-dcp"),
        *("--enable-expert-parallel", "--enable-dbo", *lookahead.DRAFTING, *prefix_offload.ENGINES_OWN),
    }
)


@dataclass(frozen=True, slots=True)
class SequenceParallel:
    """Words for the engine's command line, and what to tell."""

    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def decide(start: LaunchInputs) -> SequenceParallel:
    """The words, or none; UsageError for what cannot be."""
    ranks = start.whole(SIZE, 1)
    if ranks == 1:
        return SequenceParallel()
    if start.machine.engine == "cpu":
        told = f"--{SIZE} {ranks} is served as 1: this is the CPU image, its GPUs are not computed on"
        return SequenceParallel(notes=(told,))
    for rule in CONTRADICTIONS:
        if sentence := rule(start):
            raise UsageError(sentence)
    return SequenceParallel((ENGINES_SIZE, str(ranks), BACKEND, CUSTOM, WORKER_FLAG, WORKER))


def _count(start: LaunchInputs) -> str | None:
    ranks = start.whole(SIZE, 1)
    return None if ranks > 0 else f"--{SIZE} {ranks} leaves no GPU; set at least 1, which splits nothing"


def _model(start: LaunchInputs) -> str | None:
    why = start.model.unsplit
    return f"--{SIZE} does not go with this model: {why}; set --tensor-parallel-size instead" if why else None


def _no_text(start: LaunchInputs) -> str | None:
    if sampling.generates(start.model, start.words):
        return None
    return f"--{SIZE} splits prompts that are answered, and this model does not generate; leave it out"


def _drafts(start: LaunchInputs) -> str | None:
    if not lookahead.is_asked(start.settings) and start.on_host is None:
        return None
    switch = lookahead.SWITCH if start.on_host is None else host_drafts.SWITCH
    return f"--{SIZE} and --{switch} exclude each other; leave one of the two out"


def _adapters(start: LaunchInputs) -> str | None:
    if not (start.value("enable-lora") or start.value("lora-modules")):
        return None
    return f"--{SIZE} and LoRA adapters exclude each other; merge the adapter (--merge-lora), or leave one of them out"


def _offload(start: LaunchInputs) -> str | None:
    if not start.value(prefix_offload.SWITCH):
        return None
    return f"--{SIZE} and --{prefix_offload.SWITCH} exclude each other; leave one of the two out"


def _workers(start: LaunchInputs) -> str | None:
    workers = start.whole("worker-num", 1)
    return f"--{SIZE} and --worker-num {workers} exclude each other; leave one of the two out" if workers > 1 else None


def _group(start: LaunchInputs) -> str | None:
    if start.machine.group is None:
        return None
    return f"--{SIZE} splits prompts over the GPUs of one machine, and this is a member of a group; leave it out"


def _engines_own(start: LaunchInputs) -> str | None:
    engine = engine_flags.record()
    flags = (engine.flag_of(word) for word in start.words if word.startswith("-"))
    other = next((flag for flag in flags if flag in ENGINES_OWN), None)
    return f"--{SIZE} and {other} exclude each other; leave one of the two out" if other else None


CONTRADICTIONS: tuple[Callable[[LaunchInputs], str | None], ...] = (
    _count, _model, _no_text, _drafts, _adapters, _offload, _workers, _group, _engines_own,
)  # fmt: skip
