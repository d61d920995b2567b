"""Reads from the engine's wheels which card generations they hold machine code for, without a GPU or CUDA's tools.

    python tools/engine_cards.py vllm torch-2.13.0-….whl vllm-0.32.0-….whl
    python tools/engine_cards.py deepspeed torch-2.7.1-….whl

Writes the family's part of `cards` in `windlass_sizing/quantization/engine.json` and prints what changed. With
`--print` nothing is written: for the wheels of a release that is not pinned. Standard library only.

nvcc puts the code of a library into its ELF section `.nv_fatbin`: containers one after the other, each with entries of
machine code (a "cubin", for one compute capability and the later ones of its generation) or of PTX, which the driver
compiles for that capability and every later one.
"""

from __future__ import annotations

import argparse
import json
import mmap
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

RECORD = Path(__file__).parents[1] / "lib/sizing/src/windlass_sizing/quantization/engine.json"
# Those without which `windlass_sizing.quantization.engine` cannot judge a card.
NEEDED = {
    "vllm": ("torch/lib/libtorch_cuda.so", "vllm/_C_stable_libtorch.abi3.so"),
    "deepspeed": ("torch/lib/libtorch_cuda.so",),
}
SECTION = b".nv_fatbin"
# The layouts are those of CUDA's fatbinary_section.h and of the entries that cuobjdump lists; little endian.
CONTAINER = struct.Struct("<IHHQ")  # magic, version, header bytes, bytes of the entries
ENTRY = struct.Struct("<HHIQIIHHI")  # kind, version, header bytes, payload bytes, …, minor, major, capability
MAGIC, PTX, CUBIN = 0xBA55ED50, 1, 2
KINDS = {PTX: "ptx", CUBIN: "sm"}
ELF_SECTIONS = struct.Struct("<40xQ10xHHH")  # where the table of sections is, a row's bytes, rows, the row of names
ELF_SECTION = struct.Struct("<IIQQQQ")  # name, kind, flags, address, offset, bytes


def capabilities(fatbin: bytes | memoryview) -> dict[str, list[int]]:
    """Of a section's bytes: ten times the compute capabilities with machine code (`sm`) and with PTX (`ptx`)."""
    found: dict[str, set[int]] = {"sm": set(), "ptx": set()}
    for kind, capability in _entries(memoryview(fatbin)):
        found[KINDS[kind]].add(capability)
    return {kind: sorted(values) for kind, values in found.items()}


def _entries(section: memoryview) -> Iterator[tuple[int, int]]:
    """Kind and capability of each entry. Containers begin at multiples of eight, zeros may stand between them."""
    at = 0
    while at + CONTAINER.size <= len(section):
        magic, _, header, size = CONTAINER.unpack_from(section, at)
        if magic != MAGIC:
            at += 8
            continue
        inside, end = at + header, at + header + size
        if end > len(section):
            raise ValueError(f"the container at byte {at} ends at {end}, and the section at {len(section)}")
        while inside + ENTRY.size <= end:
            kind, _, entry_header, payload, _, _, _, _, capability = ENTRY.unpack_from(section, inside)
            if kind not in KINDS:
                raise ValueError(f"the entry at byte {inside} is of kind {kind}, which is neither machine code nor PTX")
            yield kind, capability
            inside += entry_header + payload
        at = end + -end % 8


def fatbin_of(library: bytes | memoryview) -> memoryview | None:
    """The section of GPU code of a shared object; None where it has none."""
    whole = memoryview(library)
    if bytes(whole[:5]) != b"\x7fELF\x02":
        return None
    table, row_size, rows, names_row = ELF_SECTIONS.unpack_from(whole)
    sections = [ELF_SECTION.unpack_from(whole, table + row * row_size) for row in range(rows)]
    names = sections[names_row][4] if sections else 0
    for name, _, _, _, offset, size in sections:
        at = names + name
        if bytes(whole[at : at + len(SECTION) + 1]) == SECTION + b"\0":
            return whole[offset : offset + size]
    return None


def _of_file(library: Path) -> dict[str, list[int]]:
    """What a shared object holds code for; the file is mapped, as the largest have a gigabyte."""
    with library.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        section = fatbin_of(memoryview(mapped)) or memoryview(b"")
        try:
            return capabilities(section)
        finally:
            section.release()


def of_wheel(wheel: Path) -> dict[str, dict[str, list[int]]]:
    """By library of a wheel, what it holds code for; libraries without GPU code are left out."""
    found = {}
    with ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        for name in sorted(archive.namelist()):
            if not name.endswith(".so"):
                continue
            file = Path(archive.extract(name, scratch))
            listed = _of_file(file)
            file.unlink()
            if any(listed.values()):
                found[name] = listed
    return found


def family(wheels: Sequence[Path]) -> dict[str, Any]:
    """What stands in the record for one image: by wheel, by library."""
    return {"-".join(wheel.name.split("-")[:2]): of_wheel(wheel) for wheel in wheels}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What another record says, a line a library; the wheels' versions are no change by themselves."""
    old, new = _by_library(before), _by_library(after)
    return [
        f"{name}: {_listed(old.get(name))} → {_listed(new.get(name))}"
        for name in sorted(old | new)
        if old.get(name) != new.get(name)
    ]


def _by_library(cards: dict[str, Any]) -> dict[str, Any]:
    return {name: row for libraries in cards.values() for name, row in libraries.items()}


def _listed(row: dict[str, list[int]] | None) -> str:
    """`8.0 9.0 PTX 9.0`."""
    if row is None:
        return "not there"
    words = [f"{number / 10:.1f}" for number in row["sm"]] + [f"PTX {number / 10:.1f}" for number in row["ptx"]]
    return " ".join(words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the wheels; write the record, or print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=NEEDED)
    parser.add_argument("wheels", type=Path, nargs="+")
    parser.add_argument("--print", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    record = json.loads(RECORD.read_text())
    cards = record.setdefault("cards", {})
    found = family(given.wheels)
    if missing := set(NEEDED[given.family]) - set(_by_library(found)):
        parser.error(f"no wheel holds GPU code in {', '.join(sorted(missing))}; give all wheels of the family")
    for line in changes(cards.get(given.family, {}), found) or ["nothing changed"]:
        print(line)
    if not given.print:
        cards[given.family] = found
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
