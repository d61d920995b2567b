"""Looks at a model directory before any GPU is taken: can it be served, and what are its facts?

The operator's inspect Job calls `inspect` on the mounted volume, `windlass doctor` on /data/model. It reads
config.json, indexes and headers, never the weights, and says what *is* there when something is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windlass_sizing.errors import CheckpointError, FactsError
from windlass_sizing.files import adapters, documents
from windlass_sizing.files.adapters import NO_BASE, NOT_ADAPTER, UNUSABLE, Beside
from windlass_sizing.files.directory import Directory, spoken
from windlass_sizing.files.tensor_names import tensor_names
from windlass_sizing.files.weight_files import GGUF, inside, wanted_files
from windlass_sizing.files.weights import SMOOTHQUANT_BITS, Weights, read_weights
from windlass_sizing.model import drafter, lora
from windlass_sizing.model.facts import TEXT_MAX, ModelFacts, from_config

LINE_BYTES_MAX = 4000  # Kubernetes keeps 4096 bytes of a termination message
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
SIDE_QUANTIZATION = {"hf_quant_config.json": "modelopt", "quantize_config.json": "gptq", "quant_config.json": "awq"}
"""Files beside config.json that say how a checkpoint is quantized, and the method of each where it names none."""

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
    NO_BASE,
    NOT_ADAPTER,
    UNUSABLE,
)
ALONE = Beside()


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


def inspect(root: Path, path: str = "", source_label: str = "the volume", beside: Beside = ALONE) -> CheckpointReport:
    """Look at `path` inside `root`; `source_label` (`pvc/models`) is how messages name the volume."""
    model = Directory(root, path, spoken(source_label))
    try:
        with _as_checkpoint_error(model):
            return CheckpointReport(facts=_with_draft(_with_adapters(model, beside), beside))
    except CheckpointError as error:
        return CheckpointReport(reason=error.reason, message=str(error))


@contextmanager
def _as_checkpoint_error(directory: Directory) -> Iterator[None]:
    """Whatever reading the directory raises, as a CheckpointError that names it."""
    said, source = directory.shown, directory.source
    try:
        yield
    except (RuntimeError, ValueError) as error:  # links in a ring; a name that no file system has
        raise CheckpointError("PathUnreadable", f"{said} cannot be followed in {source}: {error}") from error
    except documents.NotRegularError as error:
        text = f"{said} in {source}: {Path(error.filename).name} cannot be read: {error.strerror}"
        raise CheckpointError("NotRegularFile", f"{text}; copy the file itself") from error
    except OSError as error:
        where = Path(error.filename).name if error.filename else directory.path
        text = f"{said} cannot be read in {source}: {where}: {error.strerror}"
        raise CheckpointError("PathUnreadable", f"{text}; the server runs as user 10001") from error


@dataclass(frozen=True, slots=True)
class _Model:
    """A complete model: its facts, and the configuration that they come from."""

    facts: ModelFacts
    config: Mapping[str, Any]


def _model(directory: Directory) -> _Model:
    with _as_checkpoint_error(directory):
        directory.must_exist()
        config = _config(directory)
        weights = directory.named(read_weights)
        _must_have_tokenizer(directory)
        try:
            return _Model(from_files(config, weights), config)
        except FactsError as error:
            raise CheckpointError(error.reason, f"{directory.shown}: {error}") from error


def _with_adapters(model: Directory, beside: Beside) -> ModelFacts:
    """The facts of the base, with the room that the adapters take."""
    model.must_exist()
    own = adapters.read(model, merge=beside.merge) if adapters.is_adapter(model.place) else None
    base = _base(model, own, beside)
    found = _model(base or model)
    every = _served_beside(model, own, beside, found.facts.architecture)
    served = [*([own] if own else []), *every.values()]
    if not served and (base or beside.merge):
        raise CheckpointError(
            NOT_ADAPTER, f"{model.shown} in {model.source} holds no LoRA adapter; {_leave_out(beside)}"
        )
    facts = replace(found.facts, base_path=base.path if base and base is not beside.base else None)
    if not served:
        return facts
    merged = beside.merge or any(wanted.merge for wanted in beside.adapters)
    if merged and facts.quantization:
        text = f"the base's weights are quantized ({facts.quantization}), so that nothing can be merged into them"
        raise CheckpointError(UNUSABLE, f"{model.shown} in {model.source}: {text}; serve the adapter by name")
    places, width = lora.slots([] if merged else [one.rank for one in served]), lora.width_of(found.config)
    return replace(
        facts,
        is_adapter=own is not None or None,
        adapters=len(served),
        lora_slots=places.count,
        lora_rank=places.rank,
        lora_whole=width.whole,
        lora_split=width.split,
        lora_ignored=None if merged else _ignored(served, facts.architecture),
    )


def _ignored(served: Iterable[adapters.FoundAdapter], architecture: str) -> str | None:
    """Tensors that change nothing, adapter by adapter, as far as they fit into facts."""
    found = [text for one in served if (text := "".join(filter(str.isprintable, one.ignored(architecture))))]
    return "; ".join(found)[:TEXT_MAX] or None


def _served_beside(
    model: Directory, own: adapters.FoundAdapter | None, beside: Beside, architecture: str
) -> dict[Path, adapters.FoundAdapter]:
    """The adapters that are served beside the model; an unusable one that somebody names is refused."""
    every = dict[Path, adapters.FoundAdapter]()
    if own:
        _must_fit(model, own, architecture, merge=beside.merge)
    for wanted in beside.adapters:
        one = adapters.named(model, wanted)
        _must_fit(wanted.own or model, one, architecture, merge=wanted.merge)
        every[one.place] = one
    for one in adapters.found(model) if own is None else ():
        if one.place not in every and adapters.fits(one, architecture):
            every[one.place] = one
    return every


def _must_fit(directory: Directory, one: adapters.FoundAdapter, architecture: str, *, merge: bool) -> None:
    directory.named(lambda _: one.must_fit(architecture, merge=merge))


def _base(model: Directory, own: adapters.FoundAdapter | None, beside: Beside) -> Directory | None:
    """Where config.json and the weights lie, when that is not the model's own directory."""
    if own is None and (model.place / "config.json").exists():
        if beside.base:
            text = f"{model.shown} in {model.source} is a complete model; leave spec.model.base out"
            raise CheckpointError(NOT_ADAPTER, text)
        return None
    return beside.base or (adapters.base_of(model, own.base) if own else None)


def _leave_out(beside: Beside) -> str:
    return "leave spec.model.base out" if beside.base else "leave spec.model.merge out"


def _with_draft(facts: ModelFacts, beside: Beside) -> ModelFacts:
    return replace(facts, draft=draft_facts(beside.draft)) if beside.draft else facts


def draft_facts(directory: Directory) -> ModelFacts:
    """The facts of a complete model or a head that drafts; CheckpointError where neither lies there."""
    with _as_checkpoint_error(directory):
        directory.must_exist()
        config = _config(directory)
        weights = directory.named(read_weights)
        names = directory.named(lambda place: tensor_names(inside(place, name) for name in wanted_files(place)))
        if drafter.method_of(config, names) == drafter.DRAFT_MODEL:
            return _model(directory).facts
        try:
            return drafter.read(config, drafter.Stored(names, weights.tensor_bytes, weights.stored_dtype))
        except FactsError as error:
            raise CheckpointError(error.reason, f"{directory.shown}: {error}") from error


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


def _config(directory: Directory) -> dict[str, Any]:
    place = directory.place
    if not (place / "config.json").exists():
        way = documents.without_config(place) or f"it has: {directory.there(place)}"
        raise CheckpointError("ConfigMissing", f"{directory.shown} has no config.json in {directory.source}; {way}")
    config = directory.named(lambda where: _parsed(where, "config.json"))
    beside = next((name for name in SIDE_QUANTIZATION if (place / name).is_file()), None)
    if beside and "quantization_config" not in config:
        config["quantization_config"] = directory.named(lambda where: beside_config(beside, _parsed(where, beside)))
    return config


def beside_config(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file of SIDE_QUANTIZATION, with the method that its name stands for."""
    return {"quant_method": SIDE_QUANTIZATION[name], **settings}


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
            f"{directory.shown} has no tokenizer in {directory.source} "
            f"(looked for {', '.join(TOKENIZERS[:4])}, …); it has: {directory.there(directory.place)}",
        )
