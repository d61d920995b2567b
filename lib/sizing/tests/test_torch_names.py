"""The names in files of torch are read from their pickles, within bounds and without running anything."""

from __future__ import annotations

import datetime
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
from windlass_sizing.files import torch_names
from windlass_sizing.files.tensor_names import adapter_tensors, tensor_names

from .test_checkpoint import safetensors

MIB = 2**20


class Runs:
    """Would make a directory if its pickle were run."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.file),)


def torch_archive(file: Path, content: object, kind: int = zipfile.ZIP_STORED) -> Path:
    """A file as torch.save writes it, of one object or of a pickle's own bytes."""
    with zipfile.ZipFile(file, "w", kind) as archive:
        raw = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
        archive.writestr("archive/data.pkl", raw)
    return file


@pytest.mark.parametrize(
    "content",
    [
        {"a.weight": 1, "b.weight": {"c": 2}},
        OrderedDict([("a.weight", [1, {"c": 1}]), ("b.weight", (1, "d"))]),
        {"a.weight": {"b.weight"}, "b.weight": {1.5, None, True}},
        {"a.weight": b"x", "b.weight": bytearray(b"x")},
    ],
)
def test_only_the_outermost_keys_are_names(tmp_path, content):
    """Of a mapping or an ordered one, with whatever plain values."""
    assert adapter_tensors(torch_archive(tmp_path / "adapter_model.bin", content)) == {"a.weight", "b.weight"}


def test_no_pickle_is_run(tmp_path):
    """A global outside of tensors is named, wherever it stands."""
    made = tmp_path / "made"
    for content in ({"a.weight": Runs(made)}, Runs(made), [{"a": Runs(made)}]):
        reason = adapter_tensors(torch_archive(tmp_path / "adapter_model.bin", content))
        assert str(reason).startswith(
            "holds more than tensors (adapter_model.bin: posix.mkdir), which the engine does not"
        )
        assert tensor_names([tmp_path / "adapter_model.bin"]) is None
    assert not made.exists()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"a": 1}, protocol=4),
        pickle.dumps({"a": 1}, protocol=0),
        b"\x80\x02(i__builtin__\nset\n.",
        b"\x80\x02cpathlib\nPath\n.",
        pickle.dumps({"a": datetime.timedelta(1)}, protocol=2),
    ],
)
def test_a_pickle_that_the_engine_does_not_load_is_refused(tmp_path, content):
    """By what is not plain in it: an opcode or a global."""
    reason = adapter_tensors(torch_archive(tmp_path / "adapter_model.pt", content))
    assert str(reason).startswith("holds more than tensors (adapter_model.pt: ")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02s.",
        b"\x80\x02q\x00.",
        b"\x80\x02}(u",
        b"\x80\x02(((((.",
        b"\x80\x02t.",
        b"\x80\x02}X\xff\xff\xff\xffa.",
        b"\x80\x02h\x05.",
        pickle.dumps(["a"], protocol=2),
        pickle.dumps("a", protocol=2),
        pickle.dumps(({"a": 1},), protocol=2),
    ],
)
def test_a_broken_pickle_has_no_names(tmp_path, content):
    """Whatever it lacks, and where it is no mapping."""
    file = torch_archive(tmp_path / "adapter_model.bin", content)
    assert adapter_tensors(file) == frozenset()
    assert tensor_names([file]) is None


MANY = 40_000
HOSTILE = {
    "many values": b"}" * MANY,
    "many marks": b"(" * MANY + b"t" * MANY,
    "deep": b"N" + b"\x85" * MANY,
    "many places": b"X\x01\0\0\0a" + b"".join(b"r" + struct.pack("<I", number) for number in range(MANY)),
    "a place far out": b"X\x01\0\0\0ar\xff\xff\xff\x7f",
    "a long text": b"X" + struct.pack("<I", 2**31) + b"a",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_pickle_is_given_up(tmp_path, monkeypatch, content):
    """After some opcodes, which take little memory each."""
    monkeypatch.setattr(torch_names, "OPCODES_MAX", 20_000)
    file = torch_archive(tmp_path / "adapter_model.bin", b"\x80\x02" + content + b".")
    tracemalloc.start()
    try:
        assert adapter_tensors(file) == frozenset()
        assert tracemalloc.get_traced_memory()[1] < 200 * torch_names.OPCODES_MAX
    finally:
        tracemalloc.stop()


def test_a_long_list_of_an_archive_is_not_read(tmp_path):
    """Each of its entries would take some hundred bytes."""
    file = torch_archive(tmp_path / "adapter_model.bin", {"a": 1})
    content = bytearray(file.read_bytes())
    end = content.rindex(b"PK\x05\x06")
    padding = bytes(17 * MIB)
    content[end + 12 : end + 16] = struct.pack("<I", struct.unpack_from("<I", content, end + 12)[0] + len(padding))
    file.write_bytes(bytes(content[:end]) + padding + bytes(content[end:]))
    assert adapter_tensors(file) == frozenset()


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_archive_is_decompressed(tmp_path, kind):
    """Its 16 MiB of one letter would be in memory at once, though the entry says that it has 1,000 bytes."""
    file = torch_archive(tmp_path / "pytorch_model.bin", {"x" * 16 * 2**20: 1}, kind)
    with zipfile.ZipFile(file) as archive:
        size = archive.infolist()[0].file_size.to_bytes(4, "little")
    file.write_bytes(file.read_bytes().replace(size, (1000).to_bytes(4, "little")))
    tracemalloc.start()
    try:
        assert tensor_names([file]) is None
        assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    finally:
        tracemalloc.stop()


def test_a_broken_compressed_entry_has_no_names(tmp_path):
    """No error of a decompressor leaves the function."""
    file = torch_archive(tmp_path / "pytorch_model.bin", {"fc.weight": 1}, zipfile.ZIP_LZMA)
    content = bytearray(file.read_bytes())
    start = content.index(b"archive/data.pkl") + len(b"archive/data.pkl") + 9  # behind LZMA's own header
    content[start : start + 8] = b"\xff" * 8
    file.write_bytes(bytes(content))
    assert tensor_names([file]) is None


def test_names_of_a_file_that_torch_wrote(tmp_path):
    """Read from its pickle without running it; those of a broken one are not known."""
    file = tmp_path / "pytorch_model.bin"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"fc.weight": 1, "layers.0.mlp.up_proj.weight": 2}, 2))
    file.write_bytes(content.getvalue())
    assert tensor_names([file]) == {"fc.weight", "layers.0.mlp.up_proj.weight"}
    file.write_bytes(content.getvalue()[:60])
    assert tensor_names([file]) is None
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/version", "3")
    assert tensor_names([file]) is None
    (tmp_path / "model.safetensors").write_bytes(safetensors(2000))
    assert tensor_names([tmp_path / "model.safetensors"])
    assert tensor_names([tmp_path / "model.safetensors", file]) is None
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert tensor_names([tmp_path / "model.gguf"]) == frozenset()
