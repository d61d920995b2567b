"""The weight files of a checkpoint: whole or cut off, and how large.

Sizes come from the safetensors headers, so a shard whose download stopped is found without reading the weights.
Called by `checkpoint.py` and `adapters.py`.
"""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.files.weight_files import FILES_MAX, GGUF, hidden_mistrals, inside, listed, wanted_files
from windlass_sizing.model.plausible import NUMBER_MAX, shown
from windlass_sizing.quantization.methods import SMOOTHQUANT, SMOOTHQUANT_FILE

DTYPE_LENGTH_MAX = 32
ARCHIVE = b"PK\x03\x04"  # how a file of torch.save begins since torch 1.6; the archive's list stands at its end
LFS_POINTER = b"version https://git-lfs"
HEADER_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
DTYPE_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Of a value of each number format that safetensors 0.8 names; the shape of another one is not checked."""
MISSING, BROKEN = "ShardMissing", "ShardBroken"
NOT_WHOLE = (MISSING, BROKEN, "IndexBroken")
"""Reasons by which weight files are there and cannot be read."""
SMOOTHQUANT_BITS = 8
DIMENSIONS_MAX = 64  # of a tensor; published ones have 5


@dataclass(frozen=True, slots=True)
class Weights:
    """What the weight files say."""

    files: int
    tensor_bytes: int
    stored_dtype: str | None  # of most bytes; None when the files do not tell
    smoothquant_bytes: int | None = None  # of smoothquant's file, beside the others or alone
    quantization: str | None = None  # SMOOTHQUANT or GGUF where the files themselves say so


def read_weights(directory: Path) -> Weights:
    """Check every weight file; raises CheckpointError with the names of those that are missing or broken."""
    names = wanted_files(directory)
    if len(names) > FILES_MAX:
        raise CheckpointError("IndexBroken", f"the model has {len(names)} weight files; at most {FILES_MAX} are read")
    if quantization_of(names) is None and (hidden := hidden_mistrals(directory)):
        raise CheckpointError(
            MISSING,
            f"{hidden} in a folder inside makes the engine look for Mistral's files (consolidated*.safetensors) beside "
            "config.json, where there are none; move that folder out of the model's directory",
        )
    missing = [name for name in names if not (directory / name).exists()]
    if missing:
        raise CheckpointError(
            MISSING,
            f"{len(missing)} of {len(names)} weight files are missing: {listed(missing)}; copy them, or download again",
        )
    total, by_dtype, budget = 0, Counter[str](), documents.Budget()
    for name in names:
        size, dtypes = measure(inside(directory, name), budget)
        total += size
        by_dtype += dtypes
    found = quantization_of(names)
    if found == SMOOTHQUANT:
        return Weights(1, total, None, total, found)
    common = by_dtype.most_common(1)
    return Weights(len(names), total, common[0][0] if common else None, _smoothquant_bytes(directory), found)


def quantization_of(names: list[str]) -> str | None:
    """What the wanted files are by their names alone: smoothquant's only file, GGUF; None for others."""
    if names == [SMOOTHQUANT_FILE]:
        return SMOOTHQUANT
    return GGUF if names and all(name.endswith(f".{GGUF}") for name in names) else None


def _smoothquant_bytes(directory: Path) -> int | None:
    """The tensors of smoothquant's file, which is a second copy of the model; None without one."""
    there = (directory / SMOOTHQUANT_FILE).is_file()
    return measure(inside(directory, SMOOTHQUANT_FILE))[0] if there else None


def measure(path: Path, budget: documents.Budget | None = None) -> tuple[int, Counter[str]]:
    """The bytes of a file's tensors, and of each number format; CheckpointError when it is not whole."""
    with documents.opened(path) as file:
        head = file.read(len(LFS_POINTER))
    if head == LFS_POINTER:
        raise CheckpointError(
            BROKEN, f"{path.name} is a Git LFS pointer, not the weights; run `git lfs pull` or download it"
        )
    size = path.stat().st_size
    if size == 0:
        raise CheckpointError(BROKEN, f"{path.name} is empty; download it again")
    if path.suffix == ".safetensors":
        return _safetensors(path, size, budget or documents.Budget())
    if head.startswith(ARCHIVE):
        _check_archive(path)
    return size, Counter()


def _check_archive(path: Path) -> None:
    """Refuse an archive whose list cannot be found; Python 3.11 raises for some of them."""
    with documents.opened(path) as file:
        try:
            is_whole = zipfile.is_zipfile(file)
        except zipfile.BadZipFile:
            is_whole = False
    if not is_whole:
        raise _broken(path, "its end is missing")


def _safetensors(path: Path, size: int, budget: documents.Budget) -> tuple[int, Counter[str]]:
    with documents.opened(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(documents.HEADER_BYTES_MAX, size - 8):
            raise _broken(path, "its header's length is impossible")
        try:
            budget.take(length)
        except ValueError as error:
            raise CheckpointError(BROKEN, f"{error}; save the model in fewer tensors or files") from error
        raw = file.read(length)
    try:
        spans = _spans(documents.parse(raw))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _broken(path, f"its header is not readable ({str(error)[:80]})") from error
    expected = 8 + length + max((end for _, _, end in spans), default=0)
    if size != expected:
        raise _broken(path, f"it has {size} bytes of {shown(expected)}")
    dtypes: Counter[str] = Counter()
    for dtype, start, end in spans:
        dtypes[HEADER_DTYPES.get(dtype, dtype.casefold())] += end - start
    return dtypes.total(), dtypes


def _spans(header: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Format and place of each tensor; ValueError where they overlap, leave a hole, or contradict their shapes."""
    tensors = [value for key, value in header.items() if key != "__metadata__"]
    spans = sorted(
        ((str(one["dtype"]), int(one["data_offsets"][0]), int(one["data_offsets"][1])) for one in tensors),
        key=lambda span: span[1:],
    )
    if any(len(dtype) > DTYPE_LENGTH_MAX or not 0 <= start <= end for dtype, start, end in spans):
        raise ValueError("a tensor has an impossible dtype or place")
    ends = [0, *(end for _, _, end in spans)]
    if any(start != before for (_, start, _), before in zip(spans, ends, strict=False)):
        raise ValueError("the tensors do not cover the file")
    if not all(map(_has_its_size, tensors)):
        raise ValueError("a tensor has another size than its shape")
    return spans


def _has_its_size(tensor: dict[str, Any]) -> bool:
    bits, shape = DTYPE_BITS.get(str(tensor["dtype"])), tensor["shape"]
    if bits is None:
        return True
    if len(shape) > DIMENSIONS_MAX or not all(isinstance(side, int) and 0 <= side <= NUMBER_MAX for side in shape):
        return False
    start, end = tensor["data_offsets"]
    return bool(math.prod(shape) * bits == 8 * (int(end) - int(start)))


def _broken(path: Path, why: str) -> CheckpointError:
    return CheckpointError(BROKEN, f"{path.name} is not whole: {why}; download it again")
