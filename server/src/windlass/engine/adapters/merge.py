"""Writes a base's checkpoint with an adapter added to its weights, one block of rows at a time.

Called by `cache`, which gives it an empty folder and publishes what it leaves there. The result is safetensors always;
a shard that the adapter does not touch, and every file that is no weights, is a link to the base's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from windlass_sizing.files.weight_files import ADAPTER_WEIGHTS, INDEXES, adapter_file, transformers_files
from windlass_sizing.model import lora_config as config

from windlass.engine.adapters import read, source, tensor_file
from windlass.engine.adapters.arithmetic import DTYPES, Bytes, Floats, Product, added, converted, to_float32
from windlass.engine.adapters.model import Merge
from windlass.engine.adapters.names import HEADS, Change, match
from windlass.engine.adapters.source import Source
from windlass.engine.adapters.tensor_file import Tensor
from windlass.engine.startup import files
from windlass.errors import ModelError

INDEX = "model.safetensors.index.json"
COPY_BYTES = 16 * 1024**2
SERVE_IT = "leave --merge-lora out and serve the adapter by name"
Report = Callable[[int, int], None]
"""Called with the bytes written and those to write."""


@dataclass(slots=True)
class _Job:
    """What writing needs to know."""

    folder: Path
    adapter: Source
    changes: Mapping[str, Change]
    report: Report
    total: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A base and the changes that an adapter makes to it."""

    base: Path
    sources: tuple[Source, ...]
    adapter: Source
    changes: Mapping[str, Change]

    @property
    def written(self) -> tuple[Source, ...]:
        """The shards that are written anew; the rest is linked."""
        return tuple(shard for shard in self.sources if self._is_written(shard))

    @property
    def size(self) -> int:
        """Bytes to write."""
        return sum(shard.size for shard in self.written)

    def _is_written(self, shard: Source) -> bool:
        is_other = shard.path.suffix != ".safetensors"
        return is_other or any(tensor.name in self.changes for tensor in shard.tensors)


def open_checkpoint(plan: Merge) -> Checkpoint:
    """Match adapter and base before anything is written; ModelError when they do not fit."""
    base, directory = Path(plan.base), Path(plan.adapter.path)
    sources = tuple(source.opened(base / shard.name) for shard in plan.shards)
    if not sources:
        raise ModelError(f"base model {base} {files.missing(base, transformers_files)}")
    file = adapter_file(directory)
    if file is None:
        raise ModelError(f"adapter {directory} has no weights any more; copy it again")
    adapter = source.opened(file)
    numbers = config.read(json.loads((directory / config.FILE).read_text(encoding="utf-8")))
    if isinstance(numbers, str):
        raise ModelError(f"adapter {directory} {numbers}")
    tensors = {tensor.name: tensor for shard in sources for tensor in shard.tensors}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    own = {tensor.name: tensor.shape for tensor in adapter.tensors}
    changes = match(own, shapes, numbers, tied=_is_tied(base, tensors))
    _check_dtypes([tensors[name] for name in changes], f"base model {base}", SERVE_IT)
    _check_dtypes(adapter.tensors, f"adapter {directory}", "save it as float32, float16 or bfloat16")
    return Checkpoint(base, sources, adapter, changes)


def _check_dtypes(tensors: Iterable[Tensor], whose: str, remedy: str) -> None:
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            raise ModelError(
                f"{tensor.name} of {whose} is stored as {tensor.dtype}, "
                f"and only {', '.join(DTYPES)} can be merged; {remedy}"
            )


def _is_tied(base: Path, names: Mapping[str, Tensor]) -> bool:
    said = json.loads((base / read.BASE_CONFIG).read_text(encoding="utf-8"))
    inner = said.get("text_config")
    both = {**said, **(inner if isinstance(inner, dict) else {})}
    return bool(both.get("tie_word_embeddings")) or not any(
        name.removesuffix(".weight").rpartition(".")[2] in HEADS for name in names
    )


def write(checkpoint: Checkpoint, folder: Path, report: Report) -> None:
    """Fill the folder; OSError when the disk does not take it, ModelError when a sum is too large to be stored."""
    written = {shard.path: _file_name(shard.path) for shard in checkpoint.written}
    job = _Job(folder, checkpoint.adapter, checkpoint.changes, report, checkpoint.size)
    _link(checkpoint, folder)
    for shard in checkpoint.written:
        with (folder / written[shard.path]).open("wb") as file:
            _write_shard(shard, file, job)
    if len(checkpoint.sources) > 1:
        _write_index(checkpoint, written, folder)


def _link(checkpoint: Checkpoint, folder: Path) -> None:
    ours = {shard.path.name for shard in checkpoint.written} | set(INDEXES) | {*ADAPTER_WEIGHTS, config.FILE}
    for entry in checkpoint.base.absolute().iterdir():
        # Hidden entries are the volume's own; other copies of the weights would be served in place of these.
        if entry.name not in ours and not entry.name.startswith(".") and not _is_other_copy(entry, checkpoint):
            (folder / entry.name).symlink_to(entry)


def _is_other_copy(entry: Path, checkpoint: Checkpoint) -> bool:
    linked = {shard.path.name for shard in checkpoint.sources}
    return entry.suffix in (".safetensors", ".bin", ".gguf", ".pt", ".pth") and entry.name not in linked


def _file_name(path: Path) -> str:
    """The name of a written shard: the base's own, or for torch's format the one that the engine expects."""
    if path.suffix == ".safetensors":
        return path.name
    return f"{path.stem.replace('pytorch_model', 'model')}.safetensors"


def _write_shard(shard: Source, file: IO[bytes], job: _Job) -> None:
    file.write(tensor_file.header(shard.tensors))
    for tensor in shard.tensors:
        change = job.changes.get(tensor.name)
        try:
            for block in _blocks(tensor, shard, change, job.adapter):
                file.write(block.data)
                job.written += len(block)
                job.report(job.written, job.total)
        except OverflowError:
            raise ModelError(
                f"{tensor.name} becomes too large for {tensor.dtype} or is no number with the adapter added; "
                "is it whole, and the base the one that it was trained on?"
            ) from None


def _blocks(tensor: Tensor, shard: Source, change: Change | None, adapter: Source) -> Iterator[Bytes]:
    whole = change.whole if change else ""
    raw, dtype = (adapter.raw(whole), _dtype(whole, adapter)) if whole else (shard.raw(tensor.name), tensor.dtype)
    if change and change.left:
        yield from added(raw, dtype, _product(change, adapter), tensor.dtype)
    elif whole:
        yield from converted(raw, dtype, tensor.dtype)
    else:
        yield from (raw[at : at + COPY_BYTES] for at in range(0, len(raw), COPY_BYTES))


def _product(change: Change, adapter: Source) -> Product:
    left, right = _floats(change.left, adapter), _floats(change.right, adapter)
    if change.is_transposed:
        left, right = np.ascontiguousarray(right.T), np.ascontiguousarray(left.T)
    return Product(left, right, change.scale)


def _floats(name: str, adapter: Source) -> Floats:
    tensor = next(tensor for tensor in adapter.tensors if tensor.name == name)
    return to_float32(adapter.raw(name), tensor.dtype).reshape(tensor.shape)


def _dtype(name: str, adapter: Source) -> str:
    return next(tensor.dtype for tensor in adapter.tensors if tensor.name == name)


def _write_index(checkpoint: Checkpoint, written: Mapping[Path, str], folder: Path) -> None:
    weight_map = {
        tensor.name: written.get(shard.path, shard.path.name)
        for shard in checkpoint.sources
        for tensor in shard.tensors
    }
    body = {"metadata": {"total_size": sum(shard.size for shard in checkpoint.sources)}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
