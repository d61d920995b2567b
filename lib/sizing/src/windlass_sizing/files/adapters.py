"""Looks at directories that hold LoRA adapters: can each be served, of what rank is it, and where does its base lie?

`checkpoint.py` calls it for the inspect Job, before any GPU is taken. The rules of which adapters can be served are
`lora_config.py`'s, which the server reads too. Reads configurations and headers, never the tensors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.files.directory import Directory
from windlass_sizing.files.tensor_names import adapter_tensors
from windlass_sizing.files.weight_files import ADAPTER_WEIGHTS, adapter_file, has_weights, inside, listed, names_in
from windlass_sizing.files.weights import measure
from windlass_sizing.model import lora_config, lora_tensors
from windlass_sizing.quantization.engine import ENGINE

UNUSABLE, NOT_ADAPTER, NO_BASE = "AdapterUnusable", "NotAnAdapter", "BaseMissing"
NEIGHBOURS = ("base_model", "base")
"""Folder names that people give to the base beside an adapter."""
FOLDERS_MAX = 1000
"""More folders than this below a model are no adapters that somebody put there; the server looks at as many."""
LOOKED_SHOWN = 6
TOO_MANY = "its adapters hold more tensors than are read; keep fewer in the model's directory"


@dataclass(frozen=True, slots=True)
class Named:
    """One adapter of the spec: inside the model's directory, or a directory of its own."""

    name: str
    path: str = ""
    merge: bool = False
    own: Directory | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """What is looked at beside the model's directory."""

    base: Directory | None = None
    draft: Directory | None = None
    adapters: tuple[Named, ...] = ()
    merge: bool = False  # the adapter that the model's directory is, or the only one there


@dataclass(frozen=True, slots=True)
class FoundAdapter:
    """An adapter that can be served."""

    place: Path
    rank: int
    base: str  # as its configuration names it: a path, or a name as `Qwen/Qwen2-7B-Instruct`
    merge_problem: str = field(default="", compare=False)
    tensors: frozenset[str] = field(
        default=frozenset(), compare=False
    )  # their names; empty where the file does not say them
    name: str = field(default="", compare=False)  # in the spec; empty where nobody named it

    def must_fit(self, architecture: str, *, merge: bool) -> None:
        """CheckpointError where the engine takes these tensors from no adapter of a base of this class."""
        offered = ENGINE.adapter_embeddings.get(architecture)
        by_name, merged = lora_tensors.problems(self.tensors, architecture, offered)
        if problem := merged if merge else by_name:
            raise CheckpointError(UNUSABLE, f"the adapter {problem}")

    def ignored(self, architecture: str) -> str:
        """Tensors that the engine leaves alone on a base of this class; empty for none."""
        found = lora_tensors.ignored(self.tensors, ENGINE.adapter_ignored.get(architecture, ()))
        return f"{found} of adapter {self.name or self.place.name}" if found else ""


def is_adapter(place: Path) -> bool:
    """Whether the directory is itself an adapter: its configuration without a model's weights beside it."""
    return (place / lora_config.FILE).is_file() and not has_weights(place)


def read(directory: Directory, *, merge: bool) -> FoundAdapter:
    """The adapter; CheckpointError says why it cannot be served, by name or merged as it is wanted."""
    directory.must_exist()
    if not (directory.place / lora_config.FILE).is_file():
        raise CheckpointError(
            NOT_ADAPTER,
            f"{directory.shown} has no {lora_config.FILE} in {directory.source}; "
            f"it has: {directory.there(directory.place)}; name the directory of a LoRA adapter",
        )
    return directory.named(lambda place: _read(place, merge=merge))


def _read(place: Path, *, merge: bool, budget: documents.Budget | None = None) -> FoundAdapter:
    try:
        said = documents.parse(documents.read(inside(place, lora_config.FILE), documents.CONFIG_BYTES_MAX))
    except ValueError as error:
        raise CheckpointError(UNUSABLE, f"{lora_config.FILE} is not valid JSON: {error}; copy it again") from error
    if not isinstance(said, dict):
        raise CheckpointError(UNUSABLE, f"{lora_config.FILE} holds no JSON object; copy it again")
    numbers, (by_name, merged) = lora_config.read(said), lora_config.problems(said)
    if problem := merged if merge else by_name:
        raise CheckpointError(UNUSABLE, f"the adapter {problem}")
    file = adapter_file(place)
    if file is None:
        raise CheckpointError(UNUSABLE, f"the adapter has no weights ({' or '.join(ADAPTER_WEIGHTS[:2])})")
    measure(inside(place, file.name), budget)
    tensors = adapter_tensors(file, budget)
    if isinstance(tensors, str):
        raise CheckpointError(UNUSABLE, f"the adapter {tensors}")
    base, rank = said.get("base_model_name_or_path"), getattr(numbers, "largest_rank", 0)
    return FoundAdapter(place, rank, base if isinstance(base, str) else "", merged, tensors)


def named(model: Directory, wanted: Named) -> FoundAdapter:
    """An adapter of the spec; a path is one inside the model's directory unless it has a source of its own."""
    where = f'spec.model.adapters "{wanted.name}"'
    path = str(PurePosixPath(model.path, wanted.path))
    place = wanted.own or Directory(model.root, path, model.source, f"{where}: path")
    return replace(read(place, merge=wanted.merge), name=wanted.name)


def found(model: Directory) -> Iterator[FoundAdapter]:
    """The adapters in folders of the model's directory, two levels deep, as the server finds and serves them."""
    budget = documents.Budget()
    for first in _folders(model.place):
        for place in (first,) if (first / lora_config.FILE).is_file() else _folders(first):
            if (place / lora_config.FILE).is_file():
                yield from _usable(place, budget)
            if budget.left < 0:
                raise CheckpointError(UNUSABLE, f"{model.shown} in {model.source}: {TOO_MANY}")


def _usable(place: Path, budget: documents.Budget) -> Iterator[FoundAdapter]:
    """Nothing of an adapter that nobody named and that cannot be served: the server leaves it out with a note."""
    try:
        yield _read(place, merge=False, budget=budget)
    except (CheckpointError, OSError):
        return


def fits(one: FoundAdapter, architecture: str) -> bool:
    """Whether an adapter that nobody named can be served on a base of this class; else the server leaves it out."""
    try:
        one.must_fit(architecture, merge=False)
    except CheckpointError:
        return False
    return True


def _folders(place: Path) -> list[Path]:
    try:
        names = sorted(name for name in names_in(place) if not name.startswith("."))
        return list(islice((place / name for name in names if (place / name).is_dir()), FOLDERS_MAX))
    except OSError:
        return []


def base_of(adapter: Directory, named: str) -> Directory:
    """The base on the adapter's own volume; CheckpointError says where it was looked for and what is there."""
    looked = places(PurePosixPath(*adapter.parts), named)
    for path in looked:
        place = adapter.root / path
        if (place / "config.json").is_file() and has_weights(place):
            return Directory(adapter.root, str(path), adapter.source, f"{adapter.shown}: its base")
    of = f'of "{named}"' if named else "that does not name its base (base_model_name_or_path)"
    shown = listed([str(path) for path in looked], LOOKED_SHOWN)
    raise CheckpointError(
        NO_BASE,
        f"{adapter.shown} in {adapter.source} is a LoRA adapter {of}, and that base model is not there (looked at "
        f"{shown}); / has: {adapter.there(adapter.root)}; put the base on the volume under one of these paths, or name "
        "its place in spec.model.base",
    )


def places(adapter: PurePosixPath, named: str) -> tuple[PurePosixPath, ...]:
    """Paths inside the volume, in their order: the name whole and by its ends, below each directory up to the root.

    A path of the machine that trained the adapter is on this volume under its end, if at all.
    """
    parts = [part for part in PurePosixPath(named).parts if part != "/"]
    ends = [PurePosixPath(*parts[first:]) for first in range(len(parts))]
    tried = (up / end for up in (adapter, *adapter.parents) for end in (*ends, *map(PurePosixPath, NEIGHBOURS)))
    plain = (PurePosixPath(os.path.normpath(path)) for path in tried)
    return tuple(
        dict.fromkeys(path for path in plain if path not in (adapter, PurePosixPath(".")) and path.parts[0] != "..")
    )
