"""Looks for adapters and for the base that they belong to. Reads only; `plan` decides what becomes of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import documents
from windlass_sizing.files.weight_files import ADAPTER_WEIGHTS, adapter_file, has_weights, transformers_files
from windlass_sizing.files.weights import measure
from windlass_sizing.model import lora_config as config
from windlass_sizing.settings.lora_modules import Given

from windlass.engine.adapters import base, fit, tensor_file
from windlass.engine.adapters.model import FOUND, ONLY, Adapter, Adapters, Asked, Shard
from windlass.engine.startup import files
from windlass.errors import ModelError, UsageError

BASE_CONFIG = "config.json"
CHAT_TEMPLATE = "chat_template.jinja"
FOLDERS_MAX = 1000
"""More folders than this below a model are no adapters that somebody put there."""


def look(asked: Asked) -> tuple[Adapters, str]:
    """The adapters, and the directory of the base's weights; ModelError when an adapter's base is not there."""
    here = Path(asked.model)
    own = _own(here, asked)
    where = _base(asked, here, own)
    given = tuple(_given(given, here, asked) for given in asked.given)
    found = tuple(_found(here, asked)) if asked.discovers and own is None else ()
    wants_merge = any(adapter.digest for adapter in (*given, *found, *((own,) if own else ())))
    template = here / CHAT_TEMPLATE
    shards = [file.path for file in base_weights(Path(where))] if own or given or found else []
    name = _class_of(Path(where))
    adapters = Adapters(
        fit.checked([own], shards, name)[0] if own else None,
        fit.checked(found, shards, name),
        fit.checked(given, shards, name),
        shards=_shards(Path(where)) if wants_merge else (),
        chat_template=str(template) if own and template.is_file() else "",
        notes=_beside(here) if own is None else (),
    )
    return adapters, where


def _class_of(base: Path) -> str:
    """The class that the base's config.json names; empty where it cannot be read, for that is told elsewhere."""
    try:
        found = documents.parse(documents.read(base / BASE_CONFIG, documents.CONFIG_BYTES_MAX))
        return str(next(iter(found["architectures"])))
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return ""


def base_weights(directory: Path) -> tuple[files.WeightFile, ...]:
    """The model's own weight files, under the names of tensors that adapters have."""
    return files.find(directory, transformers_files)


def _own(here: Path, asked: Asked) -> Adapter | None:
    if not (here / config.FILE).is_file() or _has_weights(here):
        return None
    return _adapter(here, here.absolute().name, FOUND, asked)


def _beside(here: Path) -> tuple[str, ...]:
    if not (here / config.FILE).is_file():
        return ()
    return (f"the adapter among the weights of {here} is not served; move {config.FILE} and its weights into a folder",)


def _base(asked: Asked, here: Path, own: Adapter | None) -> str:
    """Where config.json and the weights lie: the model directory, unless that is an adapter or holds adapters only."""
    if own is None and (here / BASE_CONFIG).is_file():
        if asked.base:
            raise UsageError(
                f"--base-model is {asked.base}, and model directory {here} is a complete model; leave one of them out"
            )
        return asked.model
    if asked.base:
        if not (Path(asked.base) / BASE_CONFIG).is_file():
            raise UsageError(
                f"--base-model is {asked.base}, which has no {BASE_CONFIG}; name the directory of a complete model"
            )
        return asked.base
    return asked.model if own is None else _neighbour(here, _named(here))


def _neighbour(here: Path, named: str) -> str:
    looked = base.places(str(here), named)
    found = next((place for place in looked if _is_base(Path(place))), None)
    if found is None:
        raise ModelError(base.missing(str(here), named, looked))
    return os.path.normpath(found)


def _is_base(place: Path) -> bool:
    return (place / BASE_CONFIG).is_file() and _has_weights(place)


def _has_weights(place: Path) -> bool:
    """Whether weights lie there; False where the directory cannot be read, which the look at the model reports."""
    try:
        return has_weights(place)
    except OSError:
        return False


def _named(here: Path) -> str:
    said = _config(here)
    named = said.get("base_model_name_or_path") if isinstance(said, dict) else None
    return named if isinstance(named, str) else ""


def _given(given: Given, here: Path, asked: Asked) -> Adapter:
    """A relative path is one inside the model directory, if it leads to an adapter there."""
    inside = here / given.path
    path = inside if (inside / config.FILE).is_file() else Path(given.path)
    return replace(_adapter(path, given.name, asked.origin, asked), given=given)


def _found(here: Path, asked: Asked) -> Iterator[Adapter]:
    for first in _folders(here):
        if (first / config.FILE).is_file():
            yield _adapter(first, first.name, FOUND, asked)
            continue
        for second in _folders(first):
            if (second / config.FILE).is_file():
                yield _adapter(second, second.name, FOUND, asked)


def _folders(directory: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in directory.iterdir() if not entry.name.startswith(".") and entry.is_dir())
    except OSError:
        return []
    return entries[:FOLDERS_MAX]


def _adapter(directory: Path, name: str, origin: str, asked: Asked) -> Adapter:
    adapter = Adapter(name, os.path.normpath(directory.absolute()), origin)
    if broken := _broken(directory):
        return replace(adapter, problem=broken, merge_problem=broken)
    said = _config(directory)
    assert isinstance(said, dict)  # noqa: S101 - _broken has told of anything else
    numbers = config.read(said)
    by_name, merged = config.problems(said)
    rank = numbers.largest_rank if isinstance(numbers, config.LoraConfig) else 0
    is_own = origin == FOUND and Path(asked.model) == directory
    wanted = bool(asked.merge) and (is_own or asked.merge in (ONLY, name))
    digest = _digest(directory) if wanted else ""
    return replace(adapter, rank=rank, problem=by_name, merge_problem=merged, digest=digest)


def _broken(directory: Path) -> str:
    """What is wrong with its files, as the end of a sentence."""
    said = _config(directory)
    if isinstance(said, str):
        return said
    if waiting := _waiting(directory):
        return waiting
    file = adapter_file(directory)
    if file is None:
        return f"has no weights ({' or '.join(ADAPTER_WEIGHTS[:2])}); copy it again"
    try:
        if file.suffix == ".safetensors":
            tensor_file.read_header(file)
        else:
            measure(file)
    except CheckpointError as error:
        return f"is broken: {error}"
    except OSError as error:
        return _unreadable(file, error)
    except ValueError as error:
        return f"is broken: {file.name}: {error}; copy it again"
    return ""


def _waiting(directory: Path) -> str:
    """A pipe, a socket or a device among its files, whose reader would wait for ever; the end of a sentence."""
    try:
        kinds = ((path.name, documents.waits(path)) for path in sorted(directory.iterdir()))
        return next(
            (f"cannot be used: {name} is {kind}, not a regular file; copy it again" for name, kind in kinds if kind), ""
        )
    except OSError:
        return ""


def _config(directory: Path) -> dict[str, object] | str:
    """The configuration, or what is wrong with it."""
    file = directory / config.FILE
    try:
        content = documents.parse(documents.read(file, documents.CONFIG_BYTES_MAX))
    except FileNotFoundError:
        return f"has no {config.FILE}; name the directory that holds it"
    except OSError as error:
        return _unreadable(file, error)
    except ValueError as error:
        return f"is broken: {config.FILE}: {error}; copy it again"
    return content if isinstance(content, dict) else f"is broken: {config.FILE} holds no JSON object; copy it again"


def _unreadable(file: Path, error: OSError) -> str:
    return f"cannot be used: {file.name} cannot be read as user {os.getuid()}: {error.strerror}; check the volume"


def _digest(directory: Path) -> str:
    total = hashlib.sha256(documents.read(directory / config.FILE, documents.CONFIG_BYTES_MAX))
    file = adapter_file(directory)
    assert file is not None  # noqa: S101 - looked for before
    with documents.opened(file) as content:
        total.update(hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()


def _shards(directory: Path) -> tuple[Shard, ...]:
    stats = ((file.path.name, file.path.stat()) for file in base_weights(directory))
    return tuple(Shard(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
