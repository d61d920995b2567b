"""Makes smoothquant's file: calibrate, then search and quantize layer by layer; what is done survives being killed.

Parts lie in a folder beside the file until it is whole. They are taken up again only with the same model, data and
settings.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from windlass_sizing.files.weight_files import transformers_files

from windlass.engine.quantization import decoders
from windlass.engine.quantization.decoders import Opened
from windlass.engine.quantization.smoothquant import calibrate, layers, structure
from windlass.engine.quantization.smoothquant.layers import Group, ScaleTarget
from windlass.engine.quantization.smoothquant.search import STRENGTHS, Choice, choose
from windlass.engine.quantization.texts import samples_of
from windlass.engine.startup import files

INSTEAD = "ifq or fp8"
TOKENS_TRIED = 16  # of a sample, where the structure of a layer is found
EVERY = 16
"""Samples between two saved states of the calibration."""
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the file depends on beside the model."""

    data: str
    samples: int = 256
    length: int = 512
    seed: int = 0


def make(model: Path, target: Path, recipe: Recipe, report: Report) -> dict[str, dict[str, float | None]]:
    """Write `target`; the strength and the errors of each group. `report` is told what, how much and of how much."""
    parts = target.with_suffix(".parts")
    _take_up(parts, _key(model, recipe))
    opened = decoders.open_model(model, INSTEAD)
    samples = samples_of(Path(recipe.data), opened.tokenizer, recipe.samples, recipe.length, recipe.seed)
    groups = _groups(opened, samples[0][:TOKENS_TRIED])
    state = _calibrated(opened, groups, samples, parts, report)
    chosen: dict[str, dict[str, float | None]] = {}
    for number, decoder in enumerate(opened.layers):
        chosen |= _layer(number, decoder, groups[number], state, parts)
        report("layers", number + 1, len(opened.layers))
    _join(opened, parts, target)
    shutil.rmtree(parts)
    return chosen


def _key(model: Path, recipe: Recipe) -> dict[str, object]:
    weights = [
        [found.path.name, found.size, found.path.stat().st_mtime_ns] for found in files.find(model, transformers_files)
    ]
    digest = hashlib.sha256(Path(recipe.data).read_bytes()).hexdigest()
    return {"weights": weights, "data": digest, **{k: v for k, v in asdict(recipe).items() if k != "data"}}


def _take_up(parts: Path, key: Mapping[str, object]) -> None:
    """Leave the parts of the same work, throw others away."""
    mark = parts / "of.json"
    if mark.is_file() and json.loads(mark.read_bytes()) == key:
        return
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    mark.write_text(json.dumps(key))


def _groups(opened: Opened, tokens: list[int]) -> list[tuple[Group, ...]]:
    """The groups of each decoder layer; layers of one class and shape are tried out once."""
    hidden, calls = decoders.calls(opened, tokens)
    known: dict[object, tuple[Group, ...]] = {}
    found = []
    for layer, call, states in zip(opened.layers, calls, hidden, strict=True):
        shape = (type(layer), tuple((name, one.shape) for name, one in layer.named_parameters()))
        if shape not in known:
            known[shape] = structure.groups(layer, call, states)
        found.append(known[shape])
    return found


@torch.no_grad()  # type: ignore[untyped-decorator]
def _calibrated(
    opened: Opened, groups: list[tuple[Group, ...]], samples: list[list[int]], parts: Path, report: Report
) -> calibrate.State:
    """What went through the layers, from the last saved state on."""
    file = parts / "calibration.safetensors"
    state = load_file(file) if file.is_file() else {}
    done = int(state.pop("samples", torch.zeros(())))
    network = opened.network
    watch = calibrate.Watch(opened.layers, groups, len(samples), state)
    with watch.watching():
        for number, tokens in enumerate(samples[done:], done + 1):
            network.base_model(torch.tensor([tokens], device=network.device), use_cache=False)
            if number % EVERY == 0 or number == len(samples):
                _save({**watch.state, "samples": torch.tensor(number)}, file)
            report("samples", number, len(samples))
    return watch.state


def _layer(
    number: int, decoder: torch.nn.Module, groups: tuple[Group, ...], state: calibrate.State, parts: Path
) -> dict[str, dict[str, float | None]]:
    """One decoder layer searched and quantized, unless its part is there."""
    file, told = parts / f"layer-{number:03}.safetensors", parts / f"layer-{number:03}.json"
    if not told.is_file():
        tensors = {name: tensor.detach().cpu() for name, tensor in decoder.state_dict().items()}
        choices = {group.name: _choice(group, number, tensors, state) for group in groups}
        _save(layers.quantized(layers.smoothed(tensors, groups, choices), groups), file)
        rows = {
            f"{number} {name}": {"strength": found.strength, "error": found.error, "plain": found.plain_error}
            for name, found in choices.items()
        }
        draft = told.with_suffix(".draft")
        draft.write_text(json.dumps(rows))
        draft.replace(told)
    found: dict[str, dict[str, float | None]] = json.loads(told.read_bytes())
    return found


def _choice(group: Group, number: int, tensors: Mapping[str, torch.Tensor], state: calibrate.State) -> Choice:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    key = f"{number} {group.name}"
    weights = [tensors[f"{layer}.weight"].to(device) for layer in group.layers]
    inputs, largest = (state[f"{key} {what}"].to(device) for what in ("inputs", "largest"))
    strengths = () if group.takes is ScaleTarget.NOTHING else STRENGTHS
    found = choose(inputs, largest, weights, group.heads, strengths)
    return Choice(found.strength, found.scales.cpu(), found.error, found.plain_error)


def _save(tensors: Mapping[str, torch.Tensor], file: Path) -> None:
    draft = file.with_suffix(".draft")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft)
    draft.chmod(0o644)  # the server may be another user
    draft.replace(file)


def _join(opened: Opened, parts: Path, target: Path) -> None:
    """The whole model in one file: quantized layers, and the rest as it is."""
    found = opened.outside()
    for number in range(len(opened.layers)):
        part = load_file(parts / f"layer-{number:03}.safetensors")
        found |= {f"{opened.prefix}.{number}.{name}": tensor for name, tensor in part.items()}
    _save(found, target)
