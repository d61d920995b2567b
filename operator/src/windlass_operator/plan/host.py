"""The CPU and host memory that a replica asks for.

Memory must hold the weights while they are loaded and be larger than the video memory in use; it is not a share of the
card. CPU is in proportion to cards: one busy core for each rank. What the spec says wins. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from windlass_operator.api.v1alpha1 import ResourcesSpec

HEADROOM = 1.1
ENGINE_HOST_GIB = 2  # Python, torch and the engine's own processes
SHM_BASE_GIB = 1  # counted in the container's memory, as it is a memory-backed volume
SHM_PER_RANK_GIB = 1


@dataclass(frozen=True, slots=True)
class Host:
    """Kubernetes quantities for the pod."""

    cpu: str
    memory: str
    shm: str
    because: str


def host_for(resources: ResourcesSpec, weights_gib: float, required_gib: float, ranks: int) -> Host:
    """What to ask of the node for this many ranks; 1 rank for the CPU."""
    shm_gib = SHM_BASE_GIB + (SHM_PER_RANK_GIB * ranks if ranks > 1 else 0)
    larger = max(weights_gib, required_gib)
    memory = f"{math.ceil(larger * HEADROOM + shm_gib + ENGINE_HOST_GIB)}Gi"
    because = (
        f"host memory {memory}: {larger:.2f} GiB × {HEADROOM} + {shm_gib} GiB shared memory "
        f"+ {ENGINE_HOST_GIB} GiB for the engine's processes"
        if resources.memory is None
        else f"host memory {resources.memory} by spec.resources.memory"
    )
    return Host(resources.cpu or str(max(1, ranks)), resources.memory or memory, f"{shm_gib}Gi", because)
