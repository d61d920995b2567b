"""The weight files of a checkpoint: which there must be, which are there, whole or cut off, and how large.

Sizes come from the safetensors headers, so a shard whose download stopped is found without reading the weights.
Called by `checkpoint.py` and `adapters.py`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.model.plausible import shown
from windlass_sizing.quantization.methods import SMOOTHQUANT, SMOOTHQUANT_FILE

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
SMOOTHQUANT_BITS = 8
ENGINES_INDEX = INDEXES[0]  # the one by which the engine leaves other safetensors files out
GGUF = "gguf"
SUFFIXES = (".safetensors", ".bin", f".{GGUF}")
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt")
"""Of a LoRA adapter; the engine takes the first that is there."""
NOT_WEIGHTS = (*ADAPTER_WEIGHTS, "training_args.bin", "optimizer.bin", "scheduler.bin", "rng_state.bin")
DTYPE_LENGTH_MAX = 32
FILES_MAX = 4096  # weight files of one model; the largest published ones have under 1,000
ENTRIES_MAX = 65_536  # of a directory
LFS_POINTER = b"version https://git-lfs"
SHARD_NAME = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.\w+)$")
HEADER_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
NAMES_MAX = 8


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
            "ShardMissing",
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
    """The weight files that the index asks for, else those that lie there with the gaps in their numbers filled.

    smoothquant's file is one of them only where it is alone: no other weights, or an index is left of files that are
    gone, for beside that index the engine reads no other file.
    """
    there = names_in(directory)
    for index in INDEXES:
        if (directory / index).is_file():
            names = _indexed(inside(directory, index))
            if SMOOTHQUANT_FILE not in there or not there.isdisjoint(names):
                return names
            if index == ENGINES_INDEX:
                return [SMOOTHQUANT_FILE]
    found = there - {*NOT_WEIGHTS, SMOOTHQUANT_FILE}
    for suffix in SUFFIXES:
        names = sorted(name for name in found if name.endswith(suffix))
        # Some authors ship the same weights twice, once as the training framework's "consolidated" file.
        names = [name for name in names if not name.startswith("consolidated")] or names
        if names:
            return sorted(set(islice((full for name in names for full in _series(name)), FILES_MAX + 1)))
    if SMOOTHQUANT_FILE in there:
        return [SMOOTHQUANT_FILE]
    raise CheckpointError(
        "WeightsMissing", "there are no weight files (*.safetensors, *.bin, *.gguf) beside config.json"
    )


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


def _series(name: str) -> Iterator[str]:
    match = SHARD_NAME.match(name)
    if not match:
        yield name
        return
    stem, count, suffix = match["stem"], match["count"], match["suffix"]
    yield from (f"{stem}-{number:05d}-of-{count}{suffix}" for number in range(1, int(count) + 1))


def measure(path: Path) -> tuple[int, Counter[str]]:
    """The bytes of a file's tensors, and of each number format; CheckpointError when it is not whole."""
    with documents.opened(path) as file:
        head = file.read(len(LFS_POINTER))
    if head == LFS_POINTER:
        raise CheckpointError(
            "ShardBroken", f"{path.name} is a Git LFS pointer, not the weights; run `git lfs pull` or download it"
        )
    size = path.stat().st_size
    if size == 0:
        raise CheckpointError("ShardBroken", f"{path.name} is empty; download it again")
    return _safetensors(path, size) if path.suffix == ".safetensors" else (size, Counter())


def _safetensors(path: Path, size: int) -> tuple[int, Counter[str]]:
    with documents.opened(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(documents.HEADER_BYTES_MAX, size - 8):
            raise _broken(path, "its header's length is impossible")
        raw = file.read(length)
    try:
        spans = _spans(documents.parse(raw))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _broken(path, "its header is not readable") from error
    expected = 8 + length + max((end for _, _, end in spans), default=0)
    if size < expected:
        raise _broken(path, f"it has {size} bytes of {shown(expected)}")
    dtypes: Counter[str] = Counter()
    for dtype, start, end in spans:
        dtypes[HEADER_DTYPES.get(dtype, dtype.casefold())] += end - start
    return dtypes.total(), dtypes


def _spans(header: dict[str, Any]) -> list[tuple[str, int, int]]:
    tensors = [value for key, value in header.items() if key != "__metadata__"]
    spans = [(str(one["dtype"]), int(one["data_offsets"][0]), int(one["data_offsets"][1])) for one in tensors]
    if any(len(dtype) > DTYPE_LENGTH_MAX or not 0 <= start <= end for dtype, start, end in spans):
        raise ValueError("a tensor has an impossible dtype or place")
    return spans


def _broken(path: Path, why: str) -> CheckpointError:
    return CheckpointError("ShardBroken", f"{path.name} is not whole: {why}; download it again")
