"""The weight files of a checkpoint: which there must be, which are there, whole or cut off, and how large.

Sizes come from the safetensors headers, so a shard whose download stopped is found without reading the weights.
Called by `checkpoint.py` and `adapters.py`.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.model.plausible import NUMBER_MAX, shown
from windlass_sizing.quantization.methods import SMOOTHQUANT, SMOOTHQUANT_FILE

ENGINES_SUFFIX = ".safetensors"  # files of which the engine takes those alone that an index names
INDEX_OF = {ENGINES_SUFFIX: "model.safetensors.index.json", ".bin": "pytorch_model.bin.index.json"}
INDEXES = tuple(INDEX_OF.values())
SMOOTHQUANT_BITS = 8
GGUF = "gguf"
SUFFIXES = (ENGINES_SUFFIX, ".bin", f".{GGUF}")
"""Kinds of weight files; the engine takes the first that is there."""
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt")
"""Of a LoRA adapter; the engine takes the first that is there."""
NOT_WEIGHTS = (*ADAPTER_WEIGHTS, "training_args.bin", "optimizer.bin", "scheduler.bin", "rng_state.bin")
DTYPE_LENGTH_MAX = 32
FILES_MAX = 4096  # weight files of one model; the largest published ones have under 1,000
ENTRIES_MAX = 65_536  # of a directory
ARCHIVE = b"PK\x03\x04"  # how a file of torch.save begins since torch 1.6; the archive's list stands at its end
LFS_POINTER = b"version https://git-lfs"
SHARD_NAME = re.compile(r"^(?P<stem>.+[-_])(?P<number>\d{1,9})(?P<of>[-_]of[-_])(?P<count>\d{1,9})(?P<suffix>\.\w+)$")
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
NAMES_MAX = 8
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
    missing = [name for name in names if not (directory / name).exists()]
    if missing:
        raise CheckpointError(
            MISSING,
            f"{len(missing)} of {len(names)} weight files are missing: {listed(missing)}; copy them, or download again",
        )
    total, by_dtype = 0, Counter[str]()
    for name in names:
        size, dtypes = measure(inside(directory, name))
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


def wanted_files(directory: Path) -> list[str]:
    """The files that the engine reads: of the first kind that is there, with gaps in an index or in numbers filled.

    An index only sorts out files of its kind. smoothquant's file is one of them only where it is alone: no other
    weights, or an index is left of files that are gone, for beside that index the engine reads no other file.
    """
    there = names_in(directory)
    found = there - {*NOT_WEIGHTS, SMOOTHQUANT_FILE}
    for suffix in SUFFIXES:
        names = sorted(name for name in found if name.endswith(suffix))
        named = _named(directory, INDEX_OF.get(suffix, ""))
        if suffix == ENGINES_SUFFIX and named and SMOOTHQUANT_FILE in there and there.isdisjoint(named):
            return [SMOOTHQUANT_FILE]
        if names and named and (suffix == ENGINES_SUFFIX or not there.isdisjoint(named)):
            return named
        # Some authors ship the same weights twice, once as the training framework's "consolidated" file.
        names = [name for name in names if not name.startswith("consolidated")] or names
        if names:
            return sorted(_with_gaps_filled(names))
    if SMOOTHQUANT_FILE in there:
        return [SMOOTHQUANT_FILE]
    if gone := next((named for index in INDEXES if (named := _named(directory, index))), []):
        return gone
    raise CheckpointError(
        "WeightsMissing", "there are no weight files (*.safetensors, *.bin, *.gguf) beside config.json"
    )


def adapter_file(place: Path) -> Path | None:
    """The file of an adapter's tensors; None where its directory has none."""
    return next((place / name for name in ADAPTER_WEIGHTS if (place / name).is_file()), None)


def names_in(directory: Path) -> set[str]:
    """What lies there, up to ENTRIES_MAX names."""
    with os.scandir(directory) as entries:
        return {entry.name for entry in islice(entries, ENTRIES_MAX)}


def inside(directory: Path, name: str) -> Path:
    """The file, unless it is a link that leads out: the serving pod mounts this one directory and nothing around it."""
    path = directory / name
    if not path.resolve().is_relative_to(directory.resolve()):
        raise CheckpointError(
            "PathEscapes",
            f"{name} is a link to a file outside the model's directory, which the server does not see; "
            "copy the file itself into the directory",
        )
    return path


def listed(names: list[str], most: int = NAMES_MAX) -> str:
    """Some names and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _indexed(index: Path) -> list[str]:
    try:
        document = documents.parse(documents.read(index, documents.INDEX_BYTES_MAX))
        files = sorted({str(name) for name in document["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            "IndexBroken", f"{index.name} has no readable weight_map ({str(error)[:80]}); download it again"
        ) from error
    if not files:
        raise CheckpointError("IndexBroken", f"{index.name} names no weight file; download it again")
    if any("/" in name or name in ("", "..") for name in files):
        raise CheckpointError("PathEscapes", f"{index.name} names files outside the model's directory")
    return files


def _named(directory: Path, index: str) -> list[str]:
    """The files that an index names; none without one."""
    return _indexed(inside(directory, index)) if index and (directory / index).is_file() else []


def _with_gaps_filled(names: list[str]) -> set[str]:
    """The names, and those that are missing in a numbered series; no more than FILES_MAX and one."""
    series = dict[tuple[str, str, int, str], list[str]]()
    for match in filter(None, map(SHARD_NAME.match, names)):
        key = (match["stem"], f"{match['of']}{match['count']}", int(match["count"]), match["suffix"])
        series.setdefault(key, []).append(match["number"])
    full = (
        one for (stem, of, count, suffix), found in series.items() for one in _series(stem, of + suffix, count, found)
    )
    return {*names, *islice(full, FILES_MAX + 1)}


def _series(stem: str, end: str, count: int, numbers: list[str]) -> Iterator[str]:
    """A whole series, from 1 to its count; where a file has number 0, to the count or the one before it."""
    width, there = min(map(len, numbers)), set(map(int, numbers))
    first = 0 if 0 in there else 1
    last = count - 1 if first == 0 and count not in there else count
    yield from (f"{stem}{number:0{width}d}{end}" for number in range(first, last + 1))


def measure(path: Path) -> tuple[int, Counter[str]]:
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
        return _safetensors(path, size)
    if head.startswith(ARCHIVE):
        with documents.opened(path) as file:
            if not zipfile.is_zipfile(file):
                raise _broken(path, "its end is missing")
    return size, Counter()


def _safetensors(path: Path, size: int) -> tuple[int, Counter[str]]:
    with documents.opened(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(documents.HEADER_BYTES_MAX, size - 8):
            raise _broken(path, "its header's length is impossible")
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
