"""The CPU and host memory that each pod of a replica asks for.

Memory must hold the weights while they are loaded and be larger than the video memory in use; it is not a share of the
card. CPU is in proportion to cards: one busy core for each rank. What the spec says wins. Pure.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from windlass_operator.api.v1alpha1 import ResourcesSpec

HEADROOM = 1.1
ENGINE_HOST_GIB = 2  # Python, torch and the engine's own processes
SHM_BASE_GIB = 1  # counted in the container's memory, as it is a memory-backed volume
SHM_PER_RANK_GIB = 1
GIB = 1024**3
UNITS = {
    "": 1.0, "m": 1e-3,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4, "Pi": 1024.0**5, "Ei": 1024.0**6,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """Kubernetes quantities for one pod."""

    cpu: str
    memory: str
    shm: str
    because: str


def host_for(resources: ResourcesSpec, weights_gib: float, required_gib: float, ranks: int) -> Host:
    """What a pod asks of its node for these shares of the model and so many ranks; 1 rank for the CPU."""
    shm = resources.shared_memory or f"{SHM_BASE_GIB + (SHM_PER_RANK_GIB * ranks if ranks > 1 else 0)}Gi"
    shm_gib = gib(shm)
    larger = max(weights_gib, required_gib)
    memory = f"{math.ceil(larger * HEADROOM + shm_gib + ENGINE_HOST_GIB)}Gi"
    because = (
        f"host memory {memory}: {larger:.2f} GiB × {HEADROOM} + {shm_gib:g} GiB shared memory "
        f"+ {ENGINE_HOST_GIB} GiB for the engine's processes"
        if resources.memory is None
        else f"host memory {resources.memory} by spec.resources.memory"
    )
    return Host(resources.cpu or str(max(1, ranks)), resources.memory or memory, shm, because)


def gib(quantity: str) -> float:
    """A Kubernetes quantity of bytes, in GiB."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", quantity)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{quantity} is no quantity of bytes; write it as 8Gi")
    return float(found[1]) * UNITS[found[2]] / GIB
