"""The host memory of `spec.engine.prefixOffload`: how much it is, and what of it does not fit. Pure.

The field is in force while no flag or variable of the start command switches it off or gives another size: those win,
and `offload.py` reads them. The CPU engine does without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from windlass_sizing.settings.setting import FIELD

from windlass_api.crd.prefix_offload import PERCENT
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Plan, Refusal
from windlass_api.plan.offload import ASKED_MAX_GIB, PREFIX, PREFIX_MIB
from windlass_api.plan.quantity import gib
from windlass_api.plan.start import PREFIX_OFFLOAD, Start

PART, SHM_PART = "prefix offload", "shared memory"
WHY = "in /dev/shm, by spec.engine.prefixOffload"
OFF_ON_CPU = "spec.engine.prefixOffload is off: the CPU engine's KV cache lies in host memory already"
NO_EFFECT = "spec.engine.prefixOffload has no effect: spec.command is not Windlass's own start command"
MIB_A_GIB = 1024


def in_force(start: Start) -> bool:
    """Whether the field decides; the server of a command of the user's own gets no flag for it."""
    ours = start.spec.engine.prefix_offload.enabled and start.is_vllm and start.is_ours
    return ours and start.keeps_prefixes and not start.prefix_mib


def kept_gib(start: Start, base_gib: float) -> float:
    """Of one pod, whose other parts take `base_gib`, in whole MiB."""
    field = start.spec.engine.prefix_offload
    if not in_force(start):
        return 0.0
    if field.memory is not None:
        return _whole_mib(min(ASKED_MAX_GIB, gib(field.memory)))
    share = (field.memory_percent or PERCENT) / 100
    given = start.spec.resources.memory
    return _whole_mib(gib(given) * share if given else base_gib * share / (1 - share))


def unsized_prefix(start: Start, gpus: int | None) -> Refusal | None:
    """Why evicted prefixes need a size here: a share is of the pod's memory, which the plan makes from the sizes."""
    if not start.is_vllm or gpus == 0 or in_force(start):
        return None
    if not start.keeps_prefixes or start.prefix_mib:
        return None
    return Refusal(
        "PrefixOffloadWithoutSize",
        f"{PREFIX} says no size, and the share of a pod's memory is not known before the pod is planned",
        f'set spec.engine.prefixOffload instead, or add "{PREFIX_MIB}" with a size in MiB to spec.args, such as 16384',
    )


def without_effect(start: Start) -> tuple[str, ...]:
    """What a plan says of the field beside a command of the user's own."""
    ours = not start.spec.engine.prefix_offload.enabled or start.is_ours
    return () if ours else (NO_EFFECT,)


def too_large(start: Start, plan: Plan, shm_gib: float, node_gib: float) -> Refusal | None:
    """Why the planned size does not fit, with the largest that would; `shm_gib` is what /dev/shm needs without it."""
    if not in_force(start):
        return None
    kept = plan.prefix_offload_mib / MIB_A_GIB
    if not plan.prefix_offload_mib:
        return _refusal("spec.engine.prefixOffload.memory is less than 1 MiB", "set it to 1Gi or more")
    others_gib = sum(size for name, size in plan.host_parts if name not in (PART, SHM_PART)) + shm_gib
    room_gib, who = min(_rooms(start.spec, others_gib, shm_gib, node_gib), default=(math.inf, ""))
    if kept <= room_gib:
        return None
    problem = (
        f"spec.engine.prefixOffload asks for {kept:.2f} GiB of host memory, and {who} leaves {max(0, room_gib):.2f}"
    )
    if math.floor(room_gib) < 1:
        return _refusal(problem, "leave spec.engine.prefixOffload out, or give the pod more memory")
    remedy = f"set spec.engine.prefixOffload.memory to {math.floor(room_gib)}Gi or less"
    other = " in the place of memoryPercent" if start.spec.engine.prefix_offload.memory_percent else ""
    return _refusal(problem, remedy + other)


def _rooms(spec: LLMServiceSpec, others_gib: float, shm_gib: float, node_gib: float) -> Iterator[tuple[float, str]]:
    """What each bound leaves, and its name."""
    resources = spec.resources
    if resources.memory:
        yield gib(resources.memory) - others_gib, f"spec.resources.memory {resources.memory}"
    if resources.shared_memory:
        yield gib(resources.shared_memory) - shm_gib, f"spec.resources.sharedMemory {resources.shared_memory}"
    if node_gib:
        yield node_gib - others_gib, f"the largest node of this GPU, with {node_gib:.2f} GiB,"


def flags(start: Start, plan: Plan) -> Iterable[str]:
    """The server's flags for what was planned; the switch alone on the CPU, and where the user gives the size."""
    if not plan.gpus and in_force(start):
        return (PREFIX,)  # the server says why it does without, and a change of the size changes no pod
    if plan.gpus and plan.prefix_offload_mib:
        return (PREFIX, PREFIX_MIB, str(plan.prefix_offload_mib))
    return (PREFIX,) if start.settings.source(PREFIX_OFFLOAD) == FIELD and start.prefix_mib else ()


def _whole_mib(size_gib: float) -> float:
    return math.floor(size_gib * MIB_A_GIB) / MIB_A_GIB


def _refusal(message: str, remedy: str) -> Refusal:
    return Refusal("PrefixOffloadTooLarge", message, remedy)
