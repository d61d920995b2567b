"""The GPUs we know: memory, capability, and the names that nodes give them.

`memory_gib` is the number on the box, which the quick formula takes; `memory_mib` is what the driver reports and a
node's label carries, which our figure takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of card."""

    name: str
    family: str
    memory_gib: int
    memory_mib: int
    capability: tuple[int, int]
    pattern: str  # searched in the node label, where every separator is one space
    aliases: tuple[str, ...] = ()

    @property
    def real_gib(self) -> float:
        """Memory as the driver reports it."""
        return self.memory_mib / 1024


GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("T4", "T4", 16, 15360, (7, 5), r"\bT4\b"),
        Gpu("V100-16G", "V100", 16, 16384, (7, 0), r"\bV100\b.*\b16GB?\b"),
        Gpu("V100-32G", "V100", 32, 32768, (7, 0), r"\bV100\b.*\b32GB?\b"),
        Gpu("A10", "A10", 24, 23028, (8, 6), r"\bA10\b"),
        Gpu("A30", "A30", 24, 24576, (8, 0), r"\bA30\b"),
        Gpu("A40", "A40", 48, 46068, (8, 6), r"\bA40\b"),
        Gpu("A100-40G", "A100", 40, 40960, (8, 0), r"\bA100\b.*\b40GB?\b"),
        Gpu("A100-80G", "A100", 80, 81920, (8, 0), r"\bA100\b.*\b80GB?\b"),
        Gpu("A800", "A800", 80, 81920, (8, 0), r"\bA800\b"),
        Gpu("RTX-3090", "3090", 24, 24576, (8, 6), r"\b3090\b"),
        Gpu("RTX-A6000", "A6000", 48, 49140, (8, 6), r"\bA6000\b"),
        Gpu("L4", "L4", 24, 23034, (8, 9), r"\bL4\b"),
        Gpu("L20", "L20", 48, 46068, (8, 9), r"\bL20\b", ("PNV5b",)),
        Gpu("L40", "L40", 48, 46068, (8, 9), r"\bL40\b"),
        Gpu("L40S", "L40S", 48, 46068, (8, 9), r"\bL40S\b"),
        Gpu("RTX-4090", "4090", 24, 24564, (8, 9), r"\b4090D?\b"),
        Gpu("RTX-6000-Ada", "6000-Ada", 48, 49140, (8, 9), r"\b6000 Ada\b"),
        Gpu("RTX-5090", "5090", 32, 32607, (12, 0), r"\b5090D?\b"),
        Gpu("H20", "H20", 96, 97871, (9, 0), r"\bH20\b"),
        Gpu("H100", "H100", 80, 81559, (9, 0), r"\bH100\b"),
        Gpu("H800", "H800", 80, 81559, (9, 0), r"\bH800\b"),
        Gpu("H200", "H200", 141, 143771, (9, 0), r"\bH200\b"),
        Gpu("B200", "B200", 180, 183359, (10, 0), r"\bB200\b"),
    )
}


def find(product_label: str) -> Gpu | None:
    """The card behind a node's `nvidia.com/gpu.product` label or a short name; None when we do not know it."""
    words = re.sub(r"[-_\s]+", " ", product_label)
    exact = next((gpu for gpu in GPUS.values() if product_label.casefold() in _names(gpu)), None)
    return exact or next((gpu for gpu in GPUS.values() if re.search(gpu.pattern, words, re.IGNORECASE)), None)


def matches(wanted: str, product_label: str) -> bool:
    """Whether a node's product is the card that the user asked for: by label, name, family or alias."""
    want = wanted.casefold()
    if want in (product_label.casefold(), product_label.casefold().removeprefix("nvidia-")):
        return True
    gpu = find(product_label)
    return gpu is not None and want in (*_names(gpu), gpu.family.casefold())


def _names(gpu: Gpu) -> tuple[str, ...]:
    return tuple(name.casefold() for name in (gpu.name, *gpu.aliases))
