"""`windlass quantize gptq`: a GPTQ checkpoint of 4 bits in groups of 128, without reordering of columns.

Layer by layer: a layer's inputs are what the layers before it give after they were quantized.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from windlass.engine.quantization import decoders
from windlass.engine.quantization.decoders import Call, Opened
from windlass.engine.quantization.gptq.packing import packed
from windlass.engine.quantization.gptq.solve import BITS, GROUP, Solved, solve
from windlass.engine.quantization.texts import samples_of
from windlass.errors import ModelError

Report = Callable[[str, int, int], None]
INSTEAD = "ifq_nf4 or fp8"
SHARD_BYTES = 4 << 30
LEFT = ("*.md", "*.py", "*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf", "*.index.json")
CONFIG = {
    "quant_method": "gptq",
    "bits": BITS,
    "group_size": GROUP,
    "desc_act": False,
    "sym": True,
    "lm_head": False,
    "checkpoint_format": "gptq",
    "pack_dtype": "int32",
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the checkpoint depends on beside the model."""

    data: Path
    samples: int = 256
    length: int = 512
    seed: int = 0


def make(model: Path, target: Path, recipe: Recipe, report: Report) -> dict[str, float]:
    """Write the model directory `target`; by linear layer, the relative error of its products."""
    opened = decoders.open_model(model, INSTEAD)
    _divides(model, opened)
    samples = samples_of(recipe.data, opened.tokenizer, recipe.samples, recipe.length, recipe.seed)
    hidden, named = _first(opened, samples, report)
    errors: dict[str, float] = {}
    made = Shards(target)
    made.add(opened.outside())
    for number, layer in enumerate(opened.layers):
        solved, found = _layer(layer, [calls[number] for calls in named], hidden)
        name = f"{opened.prefix}.{number}"
        made.add({f"{name}.{part}": tensor for part, tensor in _tensors(layer, solved, opened.stored).items()})
        errors |= {f"{name}.{part}": error for part, error in found.items()}
        report("layers", number + 1, len(opened.layers))
    made.end()
    _describe(model, target)
    return errors


def _divides(model: Path, opened: Opened) -> None:
    """Whole groups only: the engine's kernels know no rest."""
    for name, part in decoders.linears(opened.layers).items():
        if part.in_features % GROUP or part.out_features % 32:
            raise ModelError(
                f"{model} has {name} of {part.in_features} inputs and {part.out_features} outputs; GPTQ wants "
                f"multiples of {GROUP} and 32, so serve it with {INSTEAD}"
            )


def _first(opened: Opened, samples: Sequence[list[int]], report: Report) -> tuple[list[torch.Tensor], list[list[Call]]]:
    """The first layer's hidden states of each sample, and the calls of all layers."""
    hidden: list[torch.Tensor] = []
    named: list[list[Call]] = []
    for number, tokens in enumerate(samples, 1):
        states, calls = decoders.calls(opened, tokens)
        hidden.append(states[0])
        named.append(calls)
        report("samples", number, len(samples))
    return hidden, named


@torch.no_grad()  # type: ignore[untyped-decorator]
def _layer(
    layer: torch.nn.Module, calls: Sequence[Call], hidden: list[torch.Tensor]
) -> tuple[dict[str, Solved], dict[str, float]]:
    """Quantize a layer; its weights and `hidden` become those of the quantized one."""
    linears = decoders.linears(layer)
    products = _products(linears, layer, calls, hidden)
    solved: dict[str, Solved] = {}
    errors: dict[str, float] = {}
    for name, part in linears.items():
        solved[name] = solve(part.weight, products[name])
        rounded = solved[name].weight()
        errors[name] = _error(part.weight.float(), rounded, products.pop(name))
        part.weight.copy_(rounded)
    for number, call in enumerate(calls):
        hidden[number] = call(layer, hidden[number])
    return solved, errors


def _products(
    linears: dict[str, torch.nn.Linear], layer: torch.nn.Module, calls: Sequence[Call], hidden: Sequence[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """X^T X of each linear layer's inputs, over all samples."""
    found: dict[str, torch.Tensor] = {}

    def adds(name: str) -> Callable[[torch.nn.Module, tuple[torch.Tensor, ...]], None]:
        def seen(_: torch.nn.Module, words: tuple[torch.Tensor, ...]) -> None:
            rows = words[0].detach().flatten(0, -2).float()
            product = rows.T @ rows
            found[name] = found[name].add_(product) if name in found else product

        return seen

    hooks = [part.register_forward_pre_hook(adds(name)) for name, part in linears.items()]
    try:
        for call, states in zip(calls, hidden, strict=True):
            call(layer, states)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _error(exact: torch.Tensor, rounded: torch.Tensor, products: torch.Tensor) -> float:
    """The squared distance of the products by their squared length."""
    other = exact - rounded
    distance, whole = ((part @ products * part).sum() for part in (other, exact))
    return float(distance / whole.clamp_min(1e-12))


def _tensors(layer: torch.nn.Module, solved: dict[str, Solved], stored: torch.dtype) -> dict[str, torch.Tensor]:
    """A decoder layer as GPTQ checkpoints have it: biases and norms as they are."""
    found = {
        name: tensor.detach().to("cpu", stored)
        for name, tensor in layer.state_dict().items()
        if name.removesuffix(".weight") not in solved
    }
    for name, part in solved.items():
        found |= {f"{name}.{what}": tensor for what, tensor in packed(part).items()}
    return found


class Shards:
    """safetensors files of at most `SHARD_BYTES`, and their index; nothing is the model's until `end`."""

    def __init__(self, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        self._target = target
        self._open: dict[str, torch.Tensor] = {}
        self._written: list[list[str]] = []
        self._bytes = 0

    def add(self, tensors: dict[str, torch.Tensor]) -> None:
        """Keep them until a file is full."""
        self._open |= {name: tensor.contiguous() for name, tensor in tensors.items()}
        if sum(tensor.nbytes for tensor in self._open.values()) >= SHARD_BYTES:
            self._write()

    def _write(self) -> None:
        file = self._target / f"part-{len(self._written) + 1}.draft"
        save_file(self._open, file, {"format": "pt"})
        file.chmod(0o644)  # the server may be another user
        self._written.append(list(self._open))
        self._bytes += sum(tensor.nbytes for tensor in self._open.values())
        self._open = {}

    def end(self) -> None:
        """Give the files their names, and write the index."""
        if self._open:
            self._write()
        count = len(self._written)
        weight_map: dict[str, str] = {}
        for number, names in enumerate(self._written, 1):
            file = f"model-{number:05}-of-{count:05}.safetensors"
            (self._target / f"part-{number}.draft").replace(self._target / file)
            weight_map |= dict.fromkeys(names, file)
        index = {"metadata": {"total_size": self._bytes}, "weight_map": weight_map}
        (self._target / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def _describe(model: Path, target: Path) -> None:
    """The other files of the model, and the configuration with the method."""
    for file in model.iterdir():
        if file.is_file() and file.name != "config.json" and not any(map(file.match, LEFT)):
            shutil.copyfile(file, target / file.name)
    config = json.loads((model / "config.json").read_bytes())
    (target / "config.json").write_text(json.dumps({**config, "quantization_config": CONFIG}, indent=2) + "\n")
