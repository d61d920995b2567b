"""The GPUs we know: memory, capability, and the names that nodes and people give them.

`memory_gib` is the number on the box, which the rule of thumb takes; `memory_mib` is what the driver reports and a
node's label carries, which our figure takes. Memory is from NVIDIA's data sheets and `nvidia-smi`, capability from
https://developer.nvidia.com/cuda-gpus. `slices.py` knows the parts of a card that MIG makes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass_sizing.placement.slices import Slice, read_slice

NODE_LABEL = "nvidia.com/gpu.product="  # people copy the whole label of a node


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of card, or one kind of slice of a card."""

    name: str
    family: str  # what several cards are called together, else the name without its maker's line
    memory_gib: int
    memory_mib: int
    capability: tuple[int, int]
    pattern: str  # searched in the node label, where every separator is one space
    aliases: tuple[str, ...] = ()
    alone: bool = False  # a slice: ranks on several of them cannot exchange anything

    @property
    def real_gib(self) -> float:
        """Memory as the driver reports it."""
        return self.memory_mib / 1024


# The first row whose pattern is found wins: a card of another memory size stands before the usual one.
GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("T4", "T4", 16, 15360, (7, 5), r"\bT4\b"),
        Gpu("V100-16G", "V100", 16, 16384, (7, 0), r"\bV100S?\b.*\b16GB?\b"),
        Gpu("V100-32G", "V100", 32, 32768, (7, 0), r"\bV100S?\b.*\b32GB?\b"),
        Gpu("A10", "A10", 24, 23028, (8, 6), r"\bA10\b"),
        Gpu("A10G", "A10G", 24, 23028, (8, 6), r"\bA10G\b"),  # Amazon's A10
        Gpu("A30", "A30", 24, 24576, (8, 0), r"\bA30\b"),
        Gpu("A40", "A40", 48, 46068, (8, 6), r"\bA40\b"),
        Gpu("A100-40G", "A100", 40, 40960, (8, 0), r"\bA100\b.*\b40GB?\b"),
        Gpu("A100-80G", "A100", 80, 81920, (8, 0), r"\bA100\b.*\b80GB?\b"),
        Gpu("A800-40G", "A800-40G", 40, 40960, (8, 0), r"\bA800\b.*\b40GB?\b"),
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
        Gpu("RTX-PRO-6000", "PRO-6000", 96, 97887, (12, 0), r"\bRTX PRO 6000\b"),  # server and both workstation cards
        Gpu("H20-3e", "H20-3e", 141, 143771, (9, 0), r"\bH20 3e\b"),
        Gpu("H20", "H20", 96, 97871, (9, 0), r"\bH20\b"),
        Gpu("H100-NVL", "H100-NVL", 94, 95830, (9, 0), r"\bH100 NVL\b"),
        Gpu("H100", "H100", 80, 81559, (9, 0), r"\bH100\b"),
        Gpu("H800", "H800", 80, 81559, (9, 0), r"\bH800\b"),
        Gpu("H200", "H200", 141, 143771, (9, 0), r"\bH200\b"),
        Gpu("B200", "B200", 180, 183359, (10, 0), r"\bB200\b"),  # 180 GB: DGX B200, 1,440 GB of eight
        Gpu("GB200", "GB200", 186, 189471, (10, 0), r"\bGB200\b"),  # 186 GB: GB200 NVL72, 13.4 TB of 72
        Gpu("B300", "B300", 288, 275040, (10, 3), r"\bB300\b"),  # 288 GB: DGX B300, 2.3 TB of eight
        Gpu("GB300", "GB300", 288, 284208, (10, 3), r"\bGB300\b(?! WS)"),  # 288 GB: GB300 NVL72; the WS has 252
    )
}

# Where only a part of the card is there, and the label does not say how much: vGPU profiles (A10-4Q), laptops.
PARTS = re.compile(r"\bMIG\b|\b\d+[ABCQ]$|\bLaptop\b", re.IGNORECASE)

# Accelerators that no image of ours has kernels for, by the names that people write.
OTHER_MAKERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("AMD", re.compile(r"\bMI\d{2,3}[AX]?\b|\bInstinct\b|\bRadeon\b|amd\.com/gpu", re.IGNORECASE)),
    ("Intel", re.compile(r"\bGaudi ?\d?\b|\bHL 2\d+\b|\bArc (Pro )?B\d+\b|habana\.ai|gpu\.intel\.com", re.IGNORECASE)),
    ("Google", re.compile(r"\bTPU\b|google\.com/tpu", re.IGNORECASE)),
    ("Huawei", re.compile(r"\bAscend ?\d*[A-C]?\b|\b910[ABC]\b|huawei\.com/", re.IGNORECASE)),
)


def find(product_label: str) -> Gpu | None:
    """The card or slice behind a node's `nvidia.com/gpu.product` label or a short name; None when it is not known."""
    label = product_label.strip().removeprefix(NODE_LABEL)
    part = read_slice(label)
    if part:
        return _sliced(part, find(part.card) if part.card else None)
    exact = next((gpu for gpu in GPUS.values() if label.casefold() in _names(gpu)), None)
    words = _words(label)
    if exact or PARTS.search(words):
        return exact
    return next((gpu for gpu in GPUS.values() if re.search(gpu.pattern, words, re.IGNORECASE)), None)


def named(text: str) -> tuple[Gpu, ...]:
    """The cards that a name means: one for a short name, label or slice, several for a family; none when unknown."""
    wanted = text.strip().casefold()
    family = tuple(gpu for gpu in GPUS.values() if gpu.family.casefold() == wanted)
    one = find(text)
    return family or ((one,) if one else ())


def matches(wanted: str, product_label: str) -> bool:
    """Whether a node's product is the card that the user asked for: by label, name, family, alias or resource."""
    want = wanted.strip().removeprefix(NODE_LABEL).casefold()
    if want in (product_label.casefold(), product_label.casefold().removeprefix("nvidia-")):
        return True
    gpu = find(product_label)
    return gpu is not None and want in (*_names(gpu), gpu.family.casefold())


def refusal(text: str) -> str:
    """One sentence when the name is an accelerator of another maker than NVIDIA; empty otherwise."""
    words = _words(text)
    maker = next((maker for maker, pattern in OTHER_MAKERS if pattern.search(words)), "")
    if not maker:
        return ""
    return f'"{text}" is an accelerator of {maker}, and the images hold kernels for NVIDIA GPUs only'


def known_names() -> str:
    """Every name that is taken, families first, for a message."""
    families = dict.fromkeys(
        gpu.family for gpu in GPUS.values() if gpu.family not in GPUS and len(named(gpu.family)) > 1
    )
    return ", ".join((*families, *GPUS, "or a slice such as A100-80G-MIG-1g.10gb"))


def _sliced(part: Slice, card: Gpu | None) -> Gpu:
    """A slice as the small card that it is; of an unknown card it has the least that a card with MIG has."""
    return Gpu(
        name=f"{card.name}-{part.name}" if card else part.name,
        family=part.name,
        memory_gib=part.memory_gb,
        memory_mib=part.memory_mib,
        capability=card.capability if card else part.capability,
        pattern="",
        aliases=(part.profile, part.resource, part.resource.partition("/")[2]),
        alone=True,
    )


def _words(text: str) -> str:
    return re.sub(r"[-_\s]+", " ", text)


def _names(gpu: Gpu) -> tuple[str, ...]:
    return tuple(name.casefold() for name in (gpu.name, *gpu.aliases))
