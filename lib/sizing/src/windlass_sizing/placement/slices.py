"""Slices of a card that NVIDIA's Multi-Instance GPU (MIG) makes: their names, and the memory that each has.

A slice is named by its profile (`1g.10gb`: one seventh of the multiprocessors, 10 GB). A node's label carries it behind
the card's name, and where a node has several kinds each is a resource of its own. Called by `gpus.py` and the operator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RESOURCE_PREFIX = "nvidia.com/mig-"
LEAST_CAPABILITY = (8, 0)  # NVIDIA's MIG user guide, "Supported GPUs": every card with MIG is an A30, A100 or newer
NAME = re.compile(
    r"^(?:(?P<card>.+?)[-_ ])?(?:nvidia\.com/)?(?:MIG[-_ ])?"
    r"(?P<profile>[1-9]g\.(?P<gb>\d{1,3})gb(?:[.+](?:me|gfx|all|no-me)){0,2})(?:[-_ ]SHARED)?$",
    re.IGNORECASE,
)
# GB in the profile's name → the least GiB that a driver reports for it on any card: the lists of `nvidia-smi mig -lgip`
# in NVIDIA's MIG user guide and in the repositories NVIDIA/mig-parted and NVIDIA/gpu-operator.
REPORTED_GIB: dict[int, float] = {
    5: 4.75,
    6: 5.81,
    10: 9.5,
    12: 10.75,
    18: 16.0,
    20: 19.5,
    23: 20.5,
    24: 20.0,
    35: 32.25,
    36: 35.25,
    40: 39.25,
    45: 44.25,
    47: 45.5,
    71: 69.5,
    80: 78.75,
}
LEAST_SHARE = 5 / 6  # GiB for each GB of a profile that is not listed: the least above (20 of a 1g.24gb on GB200)


@dataclass(frozen=True, slots=True)
class Slice:
    """One kind of slice."""

    profile: str  # 1g.10gb
    memory_gb: int
    card: str = ""  # the text before the profile; empty in the name of a resource

    @property
    def name(self) -> str:
        """The short name without the card's."""
        return f"MIG-{self.profile}"

    @property
    def resource(self) -> str:
        """The extended resource by which a pod asks for it where a node has several kinds."""
        return RESOURCE_PREFIX + self.profile.replace("+", ".")

    @property
    def memory_mib(self) -> int:
        """Memory as the driver reports it at least."""
        return round(REPORTED_GIB.get(self.memory_gb, self.memory_gb * LEAST_SHARE) * 1024)

    @property
    def capability(self) -> tuple[int, int]:
        """What the slice can at least, whatever card it is of."""
        return LEAST_CAPABILITY


def read_slice(text: str) -> Slice | None:
    """The slice that a label, a resource or a short name means; None when it is none."""
    match = NAME.match(text.strip())
    if not match or not int(match["gb"]):
        return None
    return Slice(match["profile"].lower(), int(match["gb"]), match["card"] or "")
