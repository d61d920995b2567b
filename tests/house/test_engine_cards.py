"""The reader of the engine's wheels: what is in a library's GPU code, by bytes that are made here as nvcc lays them."""

from __future__ import annotations

import importlib.util
import io
import json
import struct
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from windlass_sizing.quantization.engine import DEEPSPEED, ENGINE, NEEDED, RECORD

TOOL = Path(__file__).parents[2] / "tools" / "engine_cards.py"


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("engine_cards", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _tool()
PTX, CUBIN = 1, 2


def container(*entries: tuple[int, int]) -> bytes:
    """A container of (kind, capability), each with a payload of 24 bytes, as the linker pads it."""
    inside = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, 24, 0, 0, 0, 1, capability) + bytes(64 - 32 + 24)
        for kind, capability in entries
    )
    whole = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(inside)) + inside
    return whole + bytes(-len(whole) % 8 + 8)


def library(fatbin: bytes) -> bytes:
    """A shared object with that section alone."""
    names = b"\0.nv_fatbin\0.shstrtab\0"
    start = 64
    sections = [(0, 0, 0), (1, start, len(fatbin)), (12, start + len(fatbin), len(names))]
    table = start + len(fatbin) + len(names)
    head = b"\x7fELF\x02".ljust(40, b"\0") + struct.pack("<Q10xHHH", table, 64, len(sections), 2)
    rows = b"".join(struct.pack("<IIQQQQ", name, 1, 0, 0, at, size).ljust(64, b"\0") for name, at, size in sections)
    return head + fatbin + names + rows


def wheel(folder: Path, name: str, **libraries: bytes) -> Path:
    """A wheel of libraries, whose names have `__` for `/`."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for member, content in libraries.items():
            archive.writestr(member.replace("__", "/") + ".so", content)
    file = folder / f"{name}-cp38-abi3-linux.whl"
    file.write_bytes(made.getvalue())
    return file


def test_machine_code_and_ptx_are_distinguished() -> None:
    """Of several containers with zeros between them."""
    section = container((CUBIN, 75), (CUBIN, 90), (PTX, 90)) + bytes(40) + container((CUBIN, 120))
    assert tool.capabilities(section) == {"sm": [75, 90, 120], "ptx": [90]}


@pytest.mark.parametrize("spoilt", [container((7, 90)), container((CUBIN, 90))[:60]])
def test_what_is_not_understood_is_an_error(spoilt: bytes) -> None:
    """A layout that a newer nvcc changed must not read as an engine without code."""
    with pytest.raises(ValueError, match=r"container at byte|neither machine code nor PTX"):
        tool.capabilities(spoilt)


def test_a_wheel_is_read_by_library(tmp_path: Path) -> None:
    """Libraries without GPU code, and files that are no libraries, are left out."""
    made = wheel(tmp_path, "vllm-9.9.9", vllm___C=library(container((CUBIN, 80))), plain=b"text", host=library(b""))
    assert tool.family([made]) == {"vllm-9.9.9": {"vllm/_C.so": {"sm": [80], "ptx": []}}}


def test_the_difference_of_two_releases_is_printed(tmp_path: Path) -> None:
    """A line for each library whose code changed, came or went; a version alone is no change."""
    old = {"torch-1": {"a.so": {"sm": [75, 80], "ptx": []}, "b.so": {"sm": [90], "ptx": []}}}
    new = {"torch-2": {"a.so": {"sm": [80], "ptx": [80]}, "c.so": {"sm": [90], "ptx": []}}}
    assert tool.changes(old, new) == [
        "a.so: 7.5 8.0 → 8.0 PTX 8.0",
        "b.so: 9.0 → not there",
        "c.so: not there → 9.0",
    ]
    assert tool.changes(old, {"torch-9": old["torch-1"]}) == []


def test_a_wheel_without_the_needed_libraries_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record stays as it is."""
    before = RECORD.read_bytes()
    with pytest.raises(SystemExit):
        tool.main(["vllm", str(wheel(tmp_path, "vllm-9.9.9", other=library(container((CUBIN, 80)))))])
    assert "no wheel holds GPU code in torch/lib/libtorch_cuda.so, vllm/_C_stable" in capsys.readouterr().err
    assert RECORD.read_bytes() == before


def test_the_record_is_of_the_locked_wheels() -> None:
    """The releases that the images install; another lock asks for another record."""
    images = TOOL.parents[1] / "images/engine-gpu"
    for family, lock in (("vllm", "vllm.lock"), ("deepspeed", "deepspeed.lock")):
        wheels = [name.replace("-", "==") for name in json.loads(RECORD.read_text())["cards"][family]]
        locked = (images / lock).read_text()
        assert [wheel for wheel in wheels if f"\n{wheel} " not in locked] == []
    assert set(tool.NEEDED["vllm"]) == set(NEEDED)


@pytest.mark.parametrize(
    ("capability", "vllm", "deepspeed"),
    [
        ((6, 1), False, True), ((7, 0), False, True), ((7, 5), True, True), ((8, 6), True, True), ((8, 9), True, True),
        ((9, 0), True, True), ((10, 0), True, False), ((10, 3), True, False), ((11, 0), False, False),
        ((12, 1), True, False),
    ],
)  # fmt: skip
def test_which_cards_have_code(capability: tuple[int, int], vllm: bool, deepspeed: bool) -> None:
    """Machine code serves its own generation from its capability on."""
    assert (ENGINE.has_code(capability), ENGINE.has_code(capability, DEEPSPEED)) == (vllm, deepspeed)
