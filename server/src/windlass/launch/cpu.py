"""What the CPU engine needs that a GPU's does not: prompts in one piece, and cores of its own for each worker. Pure.

Without cores to bind, one rank computes in the engine's own process: a third less to start, 0.4 GiB less memory.

`adjust` walks the steps; `probe` counts the cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass_sizing import engine_flags
from windlass_sizing.settings.setting import DEFAULT, Setting

from windlass.launch import lookahead
from windlass.launch.inputs import LaunchInputs
from windlass.launch.model import Machine, ModelFiles

CORES, UNBOUND = "VLLM_CPU_OMP_THREADS_BIND", "nobind"
EXECUTOR = "--distributed-executor-backend"
IN_PROCESS = "windlass.engine.startup.executor.UniProcExecutor"
ELSEWHERE = (EXECUTOR, "--nnodes", "-n", "--config")
"""Flags of the engine that say what starts its ranks, or that others are on other machines."""
RANKS = ("tensor-parallel-size", "pipeline-parallel-size", "sequence-parallel-size")
CHUNKED, BATCH = "enable-chunked-prefill", "max-num-batched-tokens"
SPLIT_IS_DANGEROUS = "a request with a seed whose prompt is split over steps ends the CPU engine"
Settings = dict[str, Setting]


def whole_prompts(
    settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """Leave prompts in one piece: the engine winds a seeded generator back after each piece, and a CPU's cannot be.

    A step then has room for a whole context beside one token of every request that runs, and its drafts, so that no
    prompt waits for the others to end. A user's own word stands, and is told what it risks.
    """
    said, batch, length = (settings.get(name) for name in (CHUNKED, BATCH, "max-model-len"))
    if machine.engine != "cpu" or (said and not said.value):
        return {}, []
    if said:
        return {}, [f"--{CHUNKED} ({said.source}): {SPLIT_IS_DANGEROUS}; leave it out"]
    changed = {CHUNKED: Setting(CHUNKED, value=False, source=DEFAULT, why=SPLIT_IS_DANGEROUS)}
    if batch is None:  # the engine then makes its batch as large as the context
        return changed, []
    if length is None or _whole(batch) < _whole(length):
        return {}, [f"--{BATCH} {batch.shown} ({batch.source}): {SPLIT_IS_DANGEROUS}; raise it to the context"]
    if batch.source == DEFAULT:
        drafts = settings.get(lookahead.TOKENS)  # none beside the engine's own words, which `lookahead` then refuses
        tokens_each = 1 + (_whole(drafts) if drafts and lookahead.is_asked(settings) else 0)
        room = _whole(batch) + _whole(settings["max-num-seqs"]) * tokens_each
        changed[BATCH] = Setting(BATCH, room, DEFAULT, "a whole prompt beside every running request")
    return changed, []


def _whole(setting: Setting) -> int:
    return int(str(setting.value))


def core_shares(cores: Sequence[int], workers: int) -> str:
    """The cores of each worker as the engine reads them, `0,1|3,4`; every worker has one, be it another's too.

    Left alone, the engine binds all workers of a NUMA node to the same cores. As it does for one, the last core of a
    share is left to the worker's scheduler.
    """
    width = max(1, len(cores) // workers)
    firsts = (number * width % len(cores) for number in range(workers))
    shares = [cores[first : first + max(1, width - 1)] for first in firsts]
    return "|".join(",".join(map(str, share)) for share in shares)


def variables(settings: Mapping[str, Setting], machine: Machine, environment: Mapping[str, str]) -> dict[str, str]:
    """What the engine's process must know of this machine.

    Drawing with a seed and log-probabilities go through functions that torch compiles at their first use, whatever
    --enforce-eager says; without a compiler that ends the engine, so torch is told to run them as they are.
    """
    if machine.engine != "cpu":
        return {}
    found = {} if machine.has_compiler else {"TORCHDYNAMO_DISABLE": "1"}
    workers = _whole(settings["worker-num"]) if "worker-num" in settings else 1
    if workers > 1 and machine.cores and not environment.get(CORES):
        found[CORES] = core_shares(machine.cores, workers)
    return found


def executor(start: LaunchInputs) -> tuple[str, ...]:
    """Words by which one rank computes in the engine's process, where there are no cores to bind."""
    machine, words = start.machine, start.words
    is_one = machine.engine == "cpu" and machine.group is None and all(start.whole(name, 1) == 1 for name in RANKS)
    if not is_one or start.environment.get(CORES) != UNBOUND:
        return ()
    if any(word.startswith("-") and engine_flags.record().flag_of(word) in ELSEWHERE for word in words):
        return ()
    return (EXECUTOR, IN_PROCESS)
