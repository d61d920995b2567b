"""Read what customers send: `nvidia-smi -L` of any number of machines, pasted into files.

Called by `windlass-license issue`. Pure. A line that is not such output is an error that names the line, because a
GPU that is lost silently here is a GPU that does not start on the customer's cluster.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from windlass_license.errors import ListingError

_GPU = re.compile(r"GPU\s+\d+:\s*(?P<brand>\S.*?)\s*\(UUID:\s*(?P<uuid>GPU-[0-9A-Za-z-]+)\)")
_MIG = re.compile(r"MIG\s+\S+\s+Device\s+\d+:\s*\(UUID:\s*(?P<uuid>MIG-[0-9A-Za-z/-]+)\)")


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """One GPU of the listing with the MIG devices printed under it."""

    uuid: str
    brand: str
    slices: tuple[str, ...] = ()


def parse_listing(text: str, source: str = "listing") -> tuple[ListedGpu, ...]:
    """Every distinct GPU of `nvidia-smi -L` output; blank lines and any newline style are fine."""
    found: dict[str, ListedGpu] = {}
    current: str | None = None
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        line = raw.strip()
        if not line:
            continue
        if gpu := _GPU.fullmatch(line):
            current = gpu["uuid"]
            found[current] = _merge(found.get(current), ListedGpu(current, gpu["brand"]))
        elif (mig := _MIG.fullmatch(line)) and current is not None:
            found[current] = _merge(found[current], ListedGpu(current, found[current].brand, (mig["uuid"],)))
        else:
            raise ListingError(_bad_line(source, number, line))
    return tuple(found.values())


def merge_listings(listings: Iterable[tuple[ListedGpu, ...]]) -> tuple[ListedGpu, ...]:
    """One entry for each GPU of several files; a license for no GPU at all is an error."""
    merged: dict[str, ListedGpu] = {}
    for gpu in (gpu for listing in listings for gpu in listing):
        merged[gpu.uuid] = _merge(merged.get(gpu.uuid), gpu)
    if not merged:
        raise ListingError(
            "the listing names no GPU; run `nvidia-smi -L` on every GPU machine and paste what it prints"
        )
    return tuple(merged.values())


def _merge(old: ListedGpu | None, new: ListedGpu) -> ListedGpu:
    if old is None:
        return new
    if old.brand != new.brand:
        raise ListingError(f'GPU {new.uuid} is listed as "{old.brand}" and as "{new.brand}"; remove the wrong line')
    return ListedGpu(old.uuid, old.brand, tuple(sorted({*old.slices, *new.slices})))


def _bad_line(source: str, number: int, line: str) -> str:
    shown = line if len(line) <= 80 else line[:77] + "..."
    return (
        f'{source} line {number} is not a line of `nvidia-smi -L`: "{shown}"; '
        "expected e.g. GPU 0: NVIDIA L20 (UUID: GPU-4c34f7a2-cd33-469b-019f-9af0bb76a073)"
    )
