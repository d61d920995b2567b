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
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from windlass.errors import ModelError
from windlass.quantization.smoothquant import calibrate, layers
from windlass.quantization.smoothquant.search import Choice, Heads, choose
from windlass.startup import files

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
    network, tokenizer, stored = _open(model)
    decoders = network.model.layers
    state = _calibrated(network, tokenizer, recipe, parts, report)
    heads = _heads(network.config)
    chosen: dict[str, dict[str, float | None]] = {}
    for number, decoder in enumerate(decoders):
        chosen |= _layer(number, decoder, state, heads, parts)
        report("layers", number + 1, len(decoders))
    _join(network, stored, parts, target)
    shutil.rmtree(parts)
    return chosen


def _key(model: Path, recipe: Recipe) -> dict[str, object]:
    weights = [[found.path.name, found.size, found.path.stat().st_mtime_ns] for found in files.find(model)]
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


def _open(model: Path) -> tuple[Any, Any, torch.dtype]:
    """Model, tokenizer, and the dtype that the checkpoint is stored in."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.from_pretrained(model)
    kind = config.model_type
    if kind not in layers.MODEL_TYPES:
        raise ModelError(
            f"{model} is a {kind}, and smoothquant knows {', '.join(layers.MODEL_TYPES)}; serve it with ifq or fp8"
        )
    on_gpu = torch.cuda.is_available()
    network = AutoModelForCausalLM.from_pretrained(model, dtype="auto" if on_gpu else torch.float32)
    network = network.to("cuda" if on_gpu else "cpu").eval()
    return network, AutoTokenizer.from_pretrained(model), config.dtype or torch.float32


def _heads(config: Any) -> Heads:  # noqa: ANN401  transformers' own
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Heads(config.num_attention_heads // config.num_key_value_heads, size)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _calibrated(network: Any, tokenizer: Any, recipe: Recipe, parts: Path, report: Report) -> calibrate.State:  # noqa: ANN401
    """What went through the layers, from the last saved state on."""
    file = parts / "calibration.safetensors"
    state = load_file(file) if file.is_file() else {}
    done = int(state.pop("samples", torch.zeros(())))
    samples = calibrate.samples_of(Path(recipe.data), tokenizer, recipe.samples, recipe.length, recipe.seed)
    watch = calibrate.Watch(network.model.layers, len(samples), state)
    with watch.watching():
        for number, tokens in enumerate(samples[done:], done + 1):
            network.model(torch.tensor([tokens], device=network.device), use_cache=False)
            if number % EVERY == 0 or number == len(samples):
                _save({**watch.state, "samples": torch.tensor(number)}, file)
            report("samples", number, len(samples))
    return watch.state


def _layer(
    number: int, decoder: torch.nn.Module, state: calibrate.State, heads: Heads, parts: Path
) -> dict[str, dict[str, float | None]]:
    """One decoder layer searched and quantized, unless its part is there."""
    file, told = parts / f"layer-{number:03}.safetensors", parts / f"layer-{number:03}.json"
    if not told.is_file():
        tensors = {name: tensor.detach().cpu() for name, tensor in decoder.state_dict().items()}
        choices = {group.before: _choice(group, number, tensors, state, heads) for group in layers.GROUPS}
        _save(layers.quantized(layers.smoothed(tensors, choices, heads)), file)
        rows = {
            f"{number} {before}": {"strength": found.strength, "error": found.error, "plain": found.plain_error}
            for before, found in choices.items()
        }
        draft = told.with_suffix(".draft")
        draft.write_text(json.dumps(rows))
        draft.replace(told)
    found: dict[str, dict[str, float | None]] = json.loads(told.read_bytes())
    return found


def _choice(
    group: layers.Group, number: int, tensors: Mapping[str, torch.Tensor], state: calibrate.State, heads: Heads
) -> Choice:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    key = f"{number} {group.before}"
    weights = [tensors[f"{layer}.weight"].to(device) for layer in group.layers]
    inputs, largest = (state[f"{key} {what}"].to(device) for what in ("inputs", "largest"))
    found = choose(inputs, largest, weights, heads if group.over_heads else None)
    return Choice(found.strength, found.scales.cpu(), found.error, found.plain_error)


def _save(tensors: Mapping[str, torch.Tensor], file: Path) -> None:
    draft = file.with_suffix(".draft")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft)
    draft.chmod(0o644)  # the server may be another user
    draft.replace(file)


def _join(network: Any, stored: torch.dtype, parts: Path, target: Path) -> None:  # noqa: ANN401  transformers' own
    """The whole model in one file: quantized layers, and the rest as it is."""
    tied = network.config.tie_word_embeddings
    found = {
        name: tensor.detach().to("cpu", stored)
        for name, tensor in network.state_dict().items()
        if not name.startswith("model.layers.") and not (tied and name == "lm_head.weight")
    }
    for number in range(len(network.model.layers)):
        part = load_file(parts / f"layer-{number:03}.safetensors")
        found |= {f"model.layers.{number}.{name}": tensor for name, tensor in part.items()}
    _save(found, target)
