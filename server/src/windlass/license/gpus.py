"""Which GPUs this process may compute on, without touching their memory.

`nvidia-smi -L` is asked, where it is missing the driver's library, and without a driver NVIDIA_VISIBLE_DEVICES is taken
if it holds UUIDs: what the container has. Of these CUDA_VISIBLE_DEVICES leaves the ones that the engine will see.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from windlass.license import nvml
from windlass.license.model import Gpu

SMI = "nvidia-smi"
"""The driver's program."""
LISTING_TIMEOUT_S = 20
GIVEN, USED = "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
CARD = re.compile(r"^GPU \d+: (?P<name>.+?) \(UUID: (?P<uuid>GPU-[0-9A-Za-z-]+)\)")
SLICE = re.compile(r"^\s+MIG (?P<name>\S+)\s+Device\s+\d+: \(UUID: (?P<uuid>MIG-[0-9A-Za-z/-]+)\)")
UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+")


def parse_listing(text: str) -> tuple[Gpu, ...]:
    """The GPUs of an `nvidia-smi -L` listing; a card that is cut into MIG slices is listed by its slices."""
    found: list[Gpu] = []
    card: Gpu | None = None
    for line in text.splitlines():
        if match := CARD.match(line):
            card = Gpu(match["uuid"], match["name"])
            found.append(card)
        elif (match := SLICE.match(line)) and card:
            if found[-1] is card:
                found.pop()
            found.append(Gpu(match["uuid"], f"{card.name} MIG {match['name']}"))
    return tuple(found)


def parse_variable(text: str) -> tuple[Gpu, ...]:
    """The GPUs that a list of UUIDs names; nothing for `all`, `none`, `void` and plain numbers."""
    words = (word.strip() for word in text.split(","))
    return tuple(Gpu(word) for word in words if UUID.fullmatch(word))


def select(gpus: Sequence[Gpu], text: str) -> tuple[Gpu, ...]:
    """Those that CUDA shows for this CUDA_VISIBLE_DEVICES: numbers, beginnings of UUIDs, up to the first wrong word."""
    chosen: list[Gpu] = []
    for word in (part.strip() for part in text.split(",")):
        named = [gpu for number, gpu in enumerate(gpus) if word and (word == str(number) or _begins(gpu, word))]
        if len(named) != 1:
            break
        if named[0] not in chosen:
            chosen.append(named[0])
    return tuple(chosen)


def visible(environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs of this container that the engine will see."""
    gpus = parse_listing(_listing()) or nvml.gpus() or parse_variable(environment.get(GIVEN, ""))
    used = environment.get(USED)
    return gpus if used is None else select(gpus, used)


def _begins(gpu: Gpu, word: str) -> bool:
    return not word.isdigit() and gpu.uuid.startswith(word)


def _listing() -> str:
    try:
        done = subprocess.run((SMI, "-L"), capture_output=True, text=True, timeout=LISTING_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
