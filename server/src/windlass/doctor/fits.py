"""Checks that compare what a start needs with what there is: method and card, memory, shared memory. Pure."""

from __future__ import annotations

import math

from windlass_sizing.engine_flags import record
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import advice, gpus
from windlass_sizing.placement.choice import Offer
from windlass_sizing.placement.formula import SAMPLED_SEQUENCES, Serving, cpu_demand, demand
from windlass_sizing.quantization import methods
from windlass_sizing.settings import engine_words

from windlass.doctor.findings import GIB, Card, Findings, Row, fail, ok, skip, warn
from windlass.launch.model import LaunchPlan

NO_PLAN = "the flags are refused"
NO_MODEL = "the checkpoint is not whole"
OFFLOADED, BACKEND = "kv-offloading-size", "kv-offloading-backend"
KV_DTYPE = "--kv-cache-dtype"
SHM_LEAST_GIB = 0.5
"""The engine's queues between processes and NCCL's buffers; containers get 0.06 GiB when nobody asks for more."""
SHM_BASE_GIB = SHM_PER_GPU_GIB = 1
"""What the operator gives to a pod."""


def method(found: Findings) -> Row:
    """Whether each card can run the quantization method."""
    if found.plan is None:
        return skip(NO_PLAN)
    if found.machine.engine == "cpu":
        return skip("the CPU engine has no compute capability")
    name = str(found.plan.value("quantization") or "none").lower()
    cards = [(card.name, card.capability) for card in found.driver.cards] or [
        (gpu.name, known.capability if (known := gpus.find(gpu.name)) else None) for gpu in found.machine.gpus
    ]
    if not cards:
        return skip("no GPU is known")
    row = methods.row_of(name)
    need = row.min_capability if row else (0, 0)
    short = [(card, has) for card, has in cards if has is not None and has < need]
    if short:
        card, has = short[0]
        seen = f"{name} needs compute capability {_dotted(need)}, {card} has {_dotted(has)}"
        return fail(seen, "take another method with --quantization, or none")
    return ok(f"{name} runs on {', '.join(sorted({f'{card} ({_dotted(has)})' for card, has in cards}))}")


def memory(found: Findings) -> Row:
    """Whether the model as it would be started fits."""
    if found.plan is None:
        return skip(NO_PLAN)
    if found.checkpoint.facts is None:
        return skip(NO_MODEL)
    wanted = serving(found.plan, found.checkpoint.facts)
    if found.machine.engine == "cpu":
        return _host_memory(found, wanted, found.checkpoint.facts)
    return _gpu_memory(found, wanted, found.checkpoint.facts)


def serving(plan: LaunchPlan, facts: ModelFacts) -> Serving:
    """The plan in the formula's words."""
    length = plan.value("max-model-len")
    said = str(plan.value("quantization") or "none").lower()
    utilization = plan.value("gpu-memory-utilization")
    step_tokens = plan.value("max-num-batched-tokens")
    return Serving(
        max_model_len=length if isinstance(length, int) else facts.max_model_len,
        tp=int(str(plan.value("tensor-parallel-size") or 1)),
        pp=int(str(plan.value("pipeline-parallel-size") or 1)),
        dtype=_format(str(plan.value("dtype"))),
        quantization=None if said == "none" else said,
        utilization=utilization if isinstance(utilization, float) else 1.0,
        enforce_eager=bool(plan.value("enforce-eager")),
        kv_cache_dtype=_engines_own(plan, KV_DTYPE).get(KV_DTYPE, "auto"),
        step_tokens=step_tokens if isinstance(step_tokens, int) else None,
        sequences=int(str(plan.value("max-num-seqs") or SAMPLED_SEQUENCES)),
    )


def _engines_own(plan: LaunchPlan, *flags: str) -> dict[str, str]:
    """What the engine's words say for these flags of its own."""
    return engine_words.values(plan.engine_args, record(), flags)


def _format(dtype: str) -> str:
    return {"half": "float16", "float": "float32"}.get(dtype, dtype)


def _gpu_memory(found: Findings, wanted: Serving, facts: ModelFacts) -> Row:
    count = wanted.tp * wanted.pp
    cards = found.driver.cards[:count]
    if not cards:
        return skip("no GPU is known")
    need = demand(facts, wanted)
    least = min(cards, key=lambda card: card.total_mib)
    has_gib = least.total_mib / 1024
    parts = f"weights {need.weights_gib:.2f}, cache {need.kv_gib:.2f}, beside {need.overhead_gib:.2f} GiB"
    seen = f"{need.per_gpu_gib:.2f} of {has_gib:.2f} GiB on each of {count} GPUs ({parts} a GPU)"
    if need.per_gpu_gib > has_gib:
        return fail(
            seen, "; ".join(advice.advise(facts, wanted, Offer(least.name, has_gib, has_gib, least.capability)))
        )
    return _in_use(found, wanted, cards) or ok(seen)


def _in_use(found: Findings, wanted: Serving, cards: tuple[Card, ...]) -> Row | None:
    """The engine refuses a card whose free memory is less than its share."""
    for card in cards:
        free = card.total_mib - card.used_mib
        if free >= wanted.utilization * card.total_mib:
            continue
        seen = f"{card.used_mib / 1024:.2f} of {card.total_mib / 1024:.2f} GiB of {card.name} {card.uuid} are in use"
        if found.serving:
            return warn(seen, "windlass serves in this container already; nothing is to be done if that is wanted")
        lower = int(100 * free / card.total_mib) / 100
        how = f", or set --gpu-memory-utilization {lower:.2f}" if lower else ""
        return fail(seen, f"end the process that holds it{how}")
    return None


def _host_memory(found: Findings, wanted: Serving, facts: ModelFacts) -> Row:
    if found.host_free_bytes is None:
        return skip("this machine does not say how much memory is free")
    need = cpu_demand(facts, wanted)
    cache_gib = need.kv_gib if found.cpu_cache_gib is None else found.cpu_cache_gib
    all_gib, free_gib = need.required_gib - need.kv_gib + cache_gib, found.host_free_bytes / GIB
    seen = f"{all_gib:.2f} of {free_gib:.2f} GiB that are free (weights {need.weights_gib:.2f}, cache {cache_gib:.2f})"
    if cache_gib < need.kv_gib:
        fix = f"one full context takes {need.kv_gib:.2f} GiB: raise VLLM_CPU_KVCACHE_SPACE, or lower --max-model-len"
        return fail(seen, fix)
    if all_gib > free_gib and not found.serving:
        return fail(seen, "give the container more memory, or lower VLLM_CPU_KVCACHE_SPACE or --max-model-len")
    return ok(seen)


def shared_memory(found: Findings) -> Row:
    """Whether /dev/shm is large enough for the ranks of one machine, and for the KV cache that is offloaded to it."""
    if found.plan is None:
        return skip(NO_PLAN)
    ranks = int(str(found.plan.value("tensor-parallel-size") or 1))
    offloaded_gib = offloaded(found.plan)
    if ranks == 1 and not offloaded_gib:
        return skip("one GPU exchanges nothing")
    if found.shm_bytes is None or found.shm_free_bytes is None:
        return fail("there is none", "mount a memory-backed volume at /dev/shm")
    advised = math.ceil(SHM_BASE_GIB + (SHM_PER_GPU_GIB * ranks if ranks > 1 else 0) + offloaded_gib)
    least_gib = (SHM_LEAST_GIB if ranks > 1 else 0) + offloaded_gib
    whose = " and ".join(
        [f"{ranks} GPUs"] * (ranks > 1) + [f"{offloaded_gib:g} GiB of offloaded KV cache"] * (offloaded_gib > 0)
    )
    free_gib, seen = found.shm_free_bytes / GIB, f"{found.shm_free_bytes / GIB:.2f} GiB of /dev/shm are free"
    fix = f"mount a memory-backed volume of {advised} GiB at /dev/shm (docker: --shm-size {advised}g)"
    fix += f", or lower --{OFFLOADED}" if offloaded_gib else ""
    if free_gib < least_gib and not found.serving:
        return fail(f"{seen}, {whose} need {least_gib:g} at least", fix)
    if found.shm_bytes / GIB < advised:
        return warn(f"{seen}, {advised} GiB are advised for {whose}", fix)
    return ok(seen)


def offloaded(plan: LaunchPlan) -> float:
    """GiB of the KV cache that all engines keep in /dev/shm; the backend lmcache keeps it in a server of its own."""
    said = _engines_own(plan, f"--{BACKEND}", f"--{OFFLOADED}")
    if said.get(f"--{BACKEND}") == "lmcache":
        return 0.0
    try:
        gib = float(said.get(f"--{OFFLOADED}", "0"))
    except ValueError:
        return 0.0  # the engine refuses it
    return gib * int(str(plan.value("worker-num") or 1))


def _dotted(version: tuple[int, int] | None) -> str:
    return "unknown" if version is None else f"{version[0]}.{version[1]}"
