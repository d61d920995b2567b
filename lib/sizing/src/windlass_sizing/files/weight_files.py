"""Which files of a model's directory hold its weights, in the order in which the pinned engine takes them.

`weights.py` measures them, `adapters.py` tells a model from an adapter by them, and the server reads them ahead, merges
and quantizes them. Looks at names and indexes alone.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE


@dataclass(frozen=True, slots=True)
class Form:
    """Weight files of one kind."""

    suffix: str
    start: str = ""
    index: str = ""
    must_match: bool = False  # the engine reads those files alone that the index names, and needs all of them

    def holds(self, name: str) -> bool:
        """Whether a file of this name is one."""
        return name.startswith(self.start) and name.endswith(self.suffix) and name not in NOT_WEIGHTS


GGUF = "gguf"
MISTRALS = Form(".safetensors", "consolidated", "consolidated.safetensors.index.json", must_match=True)
"""Mistral's own names of tensors; many authors ship such a file beside the same weights under transformers' names."""
SAFETENSORS = Form(".safetensors", index="model.safetensors.index.json", must_match=True)
FORMS = (MISTRALS, SAFETENSORS, Form(".bin", index="pytorch_model.bin.index.json"), Form(".pt"), Form(f".{GGUF}"))
"""The engine takes the first that is there (vLLM 0.32, `DefaultModelLoader`; GGUF by a plug-in)."""
INDEXES = tuple(form.index for form in FORMS if form.index)
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt")
"""Of a LoRA adapter; the engine takes the first that is there."""
NOT_WEIGHTS = (
    *ADAPTER_WEIGHTS,
    *(f"{name}.bin" for name in ("training_args", "optimizer", "scheduler", "scaler", "rng_state")),
    *(f"{name}.pt" for name in ("training_args", "optimizer", "scheduler", "scaler", "rng_state")),
)
"""Of an adapter, and of the program that trained the model."""
FILES_MAX = 4096  # weight files of one model; the largest published ones have under 1,000
ENTRIES_MAX = 65_536  # of a directory
NAMES_MAX = 8
SHARD_NAME = re.compile(r"^(?P<stem>.+[-_])(?P<number>\d{1,9})(?P<of>[-_]of[-_])(?P<count>\d{1,9})(?P<suffix>\.\w+)$")


def wanted_files(directory: Path) -> list[str]:
    """The files that the engine reads, in its order: of the first form that is there, with gaps filled.

    Gaps are those of an index or of a numbered series. smoothquant's file is one of them only where it is alone: no
    other weights, or an index is left of files that are gone, for beside that index the engine reads no other file.
    """
    there = names_in(directory)
    if found := _chosen(directory, there):
        return found
    if gone := next((named for index in INDEXES if (named := _named(directory, index))), []):
        return gone
    raise CheckpointError(
        "WeightsMissing", "there are no weight files (*.safetensors, *.bin, *.pt, *.gguf) beside config.json"
    )


def transformers_files(directory: Path) -> list[str]:
    """The files under transformers' names, which an adapter fits; the engine's where there are no others."""
    there = names_in(directory)
    plain = {name for name in there if not MISTRALS.holds(name)}
    return _chosen(directory, plain) or _chosen(directory, there)


def has_weights(place: Path) -> bool:
    """Whether a model's own weights lie there: files with content, and *.pt only beside config.json."""
    names = names_in(place)
    forms = [form for form in FORMS if form.suffix != ".pt" or "config.json" in names]
    return any(_has_content(place / name) for name in names if any(form.holds(name) for form in forms))


def _has_content(path: Path) -> bool:
    """Whether it is a regular file that is not empty; a link that leads nowhere is none."""
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def _chosen(directory: Path, there: Collection[str]) -> list[str]:
    for form in FORMS:
        names = [name for name in there if form.holds(name) and name != SMOOTHQUANT_FILE]
        named = _named(directory, form.index) if names or SMOOTHQUANT_FILE in there else []
        is_gone = set(named).isdisjoint(there)
        if form == SAFETENSORS and named and is_gone and SMOOTHQUANT_FILE in there:
            return [SMOOTHQUANT_FILE]
        if names and named and (form.must_match or not is_gone):
            return sorted(named, key=_by_number)
        if names:
            return sorted(_with_gaps_filled(names), key=_by_number)
    return [SMOOTHQUANT_FILE] if SMOOTHQUANT_FILE in there else []


def _by_number(name: str) -> list[tuple[int, str]]:
    """Count digits as numbers: shard 10 comes after shard 9, as the engine sorts them."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,9})", name)]


def hidden_mistrals(directory: Path) -> str:
    """Find a file of Mistral's form in a folder inside: it decides the form and is not read; empty where none does."""
    left, folders = ENTRIES_MAX, deque([directory])
    while folders and left > 0:
        folder = folders.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, left):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(folder / entry.name)
                    elif MISTRALS.holds(entry.name) and not entry.is_dir():
                        return "" if folder == directory else str(Path(entry.path).relative_to(directory))
        except OSError:
            continue
    return ""


def adapter_file(place: Path) -> Path | None:
    """The file of an adapter's tensors; None where its directory has none."""
    return next((place / name for name in ADAPTER_WEIGHTS if (place / name).is_file()), None)


def names_in(directory: Path) -> set[str]:
    """Names in the directory, up to ENTRIES_MAX."""
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
