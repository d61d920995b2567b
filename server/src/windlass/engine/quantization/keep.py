"""Where quantized weights are kept between starts, and whether what lies there is whole and of this very model.

A rank's tensors are one safetensors file; a record beside it, written last, holds what they were made from and a
checksum of every chunk. Standard library only: the loader and whoever reads files ahead ask the same questions.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

from windlass.engine.adapters.cache import root
from windlass.engine.startup import files

VARIABLE = "WINDLASS_QUANTIZED_CACHE"
BESIDE = "model"
OFF = ("0", "off", "none", "false")
FORMAT = 1
CHUNK_BYTES = 32 * 1024**2
_MARK_BYTES = 64 * 1024
_READERS = 8


@dataclass(frozen=True, slots=True)
class Made:
    """What the tensors depend on beside the checkpoint's files."""

    method: str
    dtype: str
    layout: str  # tiles | rows
    head: bool
    rank: str  # of tensor parallel and of pipeline, as 0/2 0/1
    engine: str


@dataclass(frozen=True, slots=True)
class Place:
    """A rank's file and its record."""

    file: Path

    @property
    def record(self) -> Path:
        """Says that the file is whole, and of what."""
        return self.file.with_suffix(".json")


def place(environment: Mapping[str, str], model: Path, made: Made) -> Place | None:
    """One for each model directory and way of quantizing it: a changed checkpoint takes the old one's; None: off."""
    directory = _directory(environment, model)
    if directory is None:
        return None
    digest = hashlib.sha256(json.dumps([str(model.resolve()), asdict(made)]).encode()).hexdigest()
    return Place(directory / f"{model.resolve().name}-{made.method}-{digest[:16]}.safetensors")


def _directory(environment: Mapping[str, str], model: Path) -> Path | None:
    said = environment.get(VARIABLE, "")
    if said.lower() in OFF:
        return None
    return model / ".windlass-quantized" if said == BESIDE else Path(said or f"{root(environment)}/quantized")


def source(model: Path, made: Made) -> dict[str, object]:
    """What the tensors are made from: of every file its size, its time and a digest of its ends."""
    return {"format": FORMAT, "files": _marks(model), **asdict(made)}


def ahead(environment: Mapping[str, str], model: Path, method: str) -> tuple[files.WeightFile, ...]:
    """What our loader will read of a model: kept weights of it, smoothquant's file, or the checkpoint without that."""
    if method == "smoothquant":  # no index names it
        file = model / SMOOTHQUANT_FILE
        return (files.WeightFile(file, file.stat().st_size),) if file.is_file() else ()
    found = files.find(model)
    directory = _directory(environment, model)
    records = sorted(directory.glob(f"{model.resolve().name}-{method}-*.json")) if directory else []
    wanted = _marks(model) if records else {}
    kept = [record.with_suffix(".safetensors") for record in records if _files_of(record) == wanted]
    if kept and all(file.is_file() for file in kept):
        return tuple(files.WeightFile(file, file.stat().st_size) for file in kept)
    return tuple(file for file in found if file.path.name != SMOOTHQUANT_FILE)


def _files_of(record: Path) -> object:
    try:
        return json.loads(record.read_bytes())["source"]["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _marks(model: Path) -> dict[str, list[object]]:
    weights = [found.path for found in files.find(model) if found.path.name != SMOOTHQUANT_FILE]
    return {path.name: _mark(path) for path in [model / "config.json", *weights]}


def _mark(path: Path) -> list[object]:
    stat = path.stat()
    with path.open("rb") as file:
        ends = file.read(_MARK_BYTES)
        file.seek(max(0, stat.st_size - _MARK_BYTES))
        ends += file.read(_MARK_BYTES)
    return [stat.st_size, stat.st_mtime_ns, hashlib.sha256(ends).hexdigest()]


def aliases(kept: Place, wanted: Mapping[str, object]) -> dict[str, str]:
    """Tensors under a second name, when the file is whole and made from `wanted`; ValueError with what is wrong.

    FileNotFoundError: nothing was kept yet.
    """
    record = json.loads(kept.record.read_bytes())
    if not isinstance(record, dict) or record.get("source") != wanted:
        raise ValueError("was made from other files, or in another way")
    if kept.file.stat().st_size != record["bytes"] or _checksums(kept.file, record["bytes"]) != record["chunks"]:
        raise ValueError("is damaged")
    return dict(record["aliases"])


def _checksums(file: Path, size: int) -> list[int]:
    def of(start: int) -> int:
        with file.open("rb") as opened:
            opened.seek(start)
            return zlib.crc32(opened.read(CHUNK_BYTES))

    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(of, range(0, size, CHUNK_BYTES)))


def _add(chunks: list[int], size: int, piece: memoryview) -> None:
    """Go on with the checksums of a file that has `size` bytes."""
    while len(piece):
        filled = size % CHUNK_BYTES
        if not filled:
            chunks.append(0)
        taken = piece[: CHUNK_BYTES - filled]
        chunks[-1] = zlib.crc32(taken, chunks[-1])
        size, piece = size + len(taken), piece[len(taken) :]


def publish(
    kept: Place, pieces: Iterable[bytes | memoryview], made_from: Mapping[str, object], others: Mapping[str, str]
) -> int:
    """Write the file's pieces in their order, then the record; bytes written. Nobody sees a part of it."""
    kept.file.parent.mkdir(parents=True, exist_ok=True)
    kept.record.unlink(missing_ok=True)
    part = kept.file.with_suffix(".part")
    chunks: list[int] = []
    size = 0
    try:
        with part.open("wb") as file:
            for piece in pieces:
                _add(chunks, size, memoryview(piece))
                size += file.write(piece)
        part.replace(kept.file)
    finally:
        part.unlink(missing_ok=True)
    draft = kept.record.with_suffix(".draft")
    draft.write_text(json.dumps({"source": made_from, "bytes": size, "chunks": chunks, "aliases": dict(others)}))
    draft.replace(kept.record)
    return size
