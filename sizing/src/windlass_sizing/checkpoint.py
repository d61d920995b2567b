"""Looks at a model directory before any GPU is taken: can it be served, and what are its facts?

The operator's inspect Job calls `inspect` on the mounted volume, `windlass doctor` on /data/model. It reads
config.json, indexes and headers, never the weights, and says what *is* there when something is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from windlass_sizing import documents
from windlass_sizing.errors import CheckpointError, FactsError
from windlass_sizing.facts import ModelFacts, from_config
from windlass_sizing.weights import GGUF, SMOOTHQUANT_BITS, Weights, inside, listed, names_in, read_weights

T = TypeVar("T")

NAMES_MAX = 20
NAME_LENGTH_MAX = 60
LINE_BYTES_MAX = 4000  # Kubernetes keeps 4096 bytes of a termination message
SOURCE_WORDS = {"pvc": "PVC", "nfs": "NFS", "hostPath": "host path"}
TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "tekken.json",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
    "*.tiktoken",
    "*.gguf",
)
SIDE_QUANTIZATION = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")

REASONS = (
    "PathNotFound",
    "PathEscapes",
    "PathUnreadable",
    "ConfigMissing",
    "ConfigBroken",
    "ConfigImplausible",
    "NotRegularFile",
    "IndexBroken",
    "WeightsMissing",
    "ShardMissing",
    "ShardBroken",
    "TokenizerMissing",
)


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """The verdict on a model directory: facts, or a reason out of REASONS with a sentence."""

    facts: ModelFacts | None = None
    reason: str = ""
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether the directory can be served."""
        return self.facts is not None

    def to_dict(self) -> dict[str, Any]:
        """The report as the inspect Job prints it."""
        if self.facts is not None:
            return {"ok": True, "facts": self.facts.to_dict()}
        return {"ok": False, "reason": self.reason, "message": self.message}

    def to_json(self) -> str:
        """One line that fits a termination message; a longer sentence is cut."""
        if self.facts is not None:
            line = json.dumps(self.to_dict(), ensure_ascii=False)
            return line if len(line.encode()) <= LINE_BYTES_MAX else TOO_LONG.to_json()
        line, words = "", self.message[:LINE_BYTES_MAX].encode(errors="replace").decode()
        for length in range(len(words), -1, -50):
            line = json.dumps({**self.to_dict(), "message": words[:length]}, ensure_ascii=False)
            if len(line.encode()) <= LINE_BYTES_MAX:
                break
        return line

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckpointReport:
        """The report back from `to_dict`."""
        if data.get("ok"):
            return cls(facts=ModelFacts.from_dict(data.get("facts") or {}))
        return cls(reason=str(data.get("reason", "")), message=str(data.get("message", "")))


TOO_LONG = CheckpointReport(None, "ConfigImplausible", "config.json gives the model names of thousands of characters")


def inspect(root: Path, path: str = "", source_label: str = "the volume") -> CheckpointReport:
    """Look at `path` inside `root`; `source_label` (`pvc/models`) is how messages name the volume."""
    try:
        return CheckpointReport(facts=_facts(Directory(root, path, _spoken(source_label))))
    except CheckpointError as error:
        return CheckpointReport(reason=error.reason, message=str(error))
    except (RuntimeError, ValueError) as error:  # links in a ring; a name that no file system has
        text = f'source.path "{path}" cannot be followed in {_spoken(source_label)}: {error}'
        return CheckpointReport(reason="PathUnreadable", message=text)
    except documents.NotRegularError as error:
        name = Path(error.filename).name
        text = f'source.path "{path}" in {_spoken(source_label)}: {name} cannot be read: {error.strerror}'
        return CheckpointReport(reason="NotRegularFile", message=f"{text}; copy the file itself")
    except OSError as error:
        where = Path(error.filename).name if error.filename else path
        text = f'source.path "{path}" cannot be read in {_spoken(source_label)}: {where}: {error.strerror}'
        return CheckpointReport(reason="PathUnreadable", message=f"{text}; the server runs as user 10001")


@dataclass(frozen=True, slots=True)
class Directory:
    """A path inside a volume, and how messages speak of it."""

    root: Path
    path: str
    source: str

    @property
    def place(self) -> Path:
        """Where it lies on this machine."""
        return self.root.joinpath(*self.parts)

    @property
    def parts(self) -> tuple[str, ...]:
        """The path's components, counted from the volume's root."""
        return tuple(part for part in PurePosixPath(self.path).parts if part != "/")

    def there(self, place: Path) -> str:
        """What lies in `place`, as the end of a sentence."""
        names = sorted(names_in(place))
        shown = [name if len(name) <= NAME_LENGTH_MAX else name[: NAME_LENGTH_MAX - 1] + "…" for name in names]
        return listed(shown, NAMES_MAX) if shown else "nothing"


def _facts(directory: Directory) -> ModelFacts:
    _must_exist(directory)
    config = _config(directory)
    weights = _named(directory, read_weights)
    _must_have_tokenizer(directory)
    try:
        return from_files(config, weights)
    except FactsError as error:
        raise CheckpointError(error.reason, f'source.path "{directory.path}": {error}') from error


def from_files(config: Mapping[str, Any], weights: Weights) -> ModelFacts:
    """The facts of a config.json with the weight files beside it."""
    if weights.quantization == GGUF:
        return from_config(
            {**config, "quantization_config": {"quant_method": GGUF}}, weights_bytes=weights.tensor_bytes
        )
    if weights.quantization:  # smoothquant's file alone: its bytes are of no one number format
        return replace(
            from_config(config),
            weights_bytes=weights.tensor_bytes,
            quantization=weights.quantization,
            quantization_bits=SMOOTHQUANT_BITS,
            smoothquant_bytes=weights.smoothquant_bytes,
            has_smoothquant_file=True,
        )
    dtype = weights.stored_dtype if "quantization_config" not in config else None
    found = from_config(config, weights_bytes=weights.tensor_bytes, stored_dtype=dtype)
    there = weights.smoothquant_bytes is not None
    return replace(found, smoothquant_bytes=weights.smoothquant_bytes, has_smoothquant_file=there)


def _must_exist(directory: Directory) -> None:
    if ".." in directory.parts:
        raise CheckpointError("PathEscapes", f'source.path "{directory.path}" must not contain ".."')
    place, root = directory.place, directory.root.resolve()
    if not place.resolve().is_relative_to(root):
        raise CheckpointError(
            "PathEscapes",
            f'source.path "{directory.path}" is a link that leads out of {directory.source}; name the directory itself',
        )
    if place.is_dir():
        return
    parent = next((up for up in place.parents if up.is_dir() and up.resolve().is_relative_to(root)), root)
    shown = "/" + "/".join(parent.relative_to(directory.root).parts) if parent != root else "/"
    what = "is a file, not a directory," if place.exists() else "is not"
    raise CheckpointError(
        "PathNotFound",
        f'source.path "{directory.path}" {what} in {directory.source}; {shown} has: {directory.there(parent)}',
    )


def _config(directory: Directory) -> dict[str, Any]:
    place = directory.place
    if not (place / "config.json").exists():
        raise CheckpointError(
            "ConfigMissing",
            f'source.path "{directory.path}" has no config.json in {directory.source}; '
            f"it has: {directory.there(place)}",
        )
    config = _named(directory, lambda where: _parsed(where, "config.json"))
    beside = next((name for name in SIDE_QUANTIZATION if (place / name).is_file()), None)
    if beside and "quantization_config" not in config:
        config["quantization_config"] = _named(directory, lambda where: _parsed(where, beside))
    return config


def _parsed(place: Path, name: str) -> dict[str, Any]:
    try:
        value = documents.parse(documents.read(inside(place, name), documents.CONFIG_BYTES_MAX))
    except ValueError as error:
        raise CheckpointError("ConfigBroken", f"{name} is not valid JSON: {error}; copy it again") from error
    if not isinstance(value, dict):
        raise CheckpointError("ConfigBroken", f"{name} is not a JSON object; copy the model's own file")
    return value


def _must_have_tokenizer(directory: Directory) -> None:
    if not any(next(directory.place.glob(pattern), None) for pattern in TOKENIZERS):
        raise CheckpointError(
            "TokenizerMissing",
            f'source.path "{directory.path}" has no tokenizer in {directory.source} '
            f"(looked for {', '.join(TOKENIZERS[:4])}, …); it has: {directory.there(directory.place)}",
        )


def _named(directory: Directory, look: Callable[[Path], T]) -> T:
    """Run a look at the files; what it refuses gets the source's name in front."""
    try:
        return look(directory.place)
    except CheckpointError as error:
        where = f'source.path "{directory.path}" in {directory.source}'
        raise CheckpointError(error.reason, f"{where}: {error}") from error


def _spoken(source_label: str) -> str:
    kind, slash, name = source_label.partition("/")
    return f"{SOURCE_WORDS.get(kind, kind)} {name}" if slash else source_label
