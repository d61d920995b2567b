"""A model whose layers are quantized from samples: opened by transformers, its decoder layers found, and called alone.

For the tools of `windlass quantize`; the server never imports it. Nothing here knows an architecture by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from windlass_sizing.files.weight_files import transformers_files

from windlass.engine.startup import files
from windlass.errors import ModelError


@dataclass(frozen=True, slots=True)
class Opened:
    """A model in memory. `prefix` is the layers' name in it, `stored` the dtype that the checkpoint is in."""

    network: Any
    tokenizer: Any
    stored: torch.dtype
    prefix: str
    layers: torch.nn.ModuleList

    def outside(self) -> dict[str, torch.Tensor]:
        """Tensors of no decoder layer, by the checkpoint's names; a tied head is stored once."""
        tied = self.network.config.tie_word_embeddings
        head = {"lm_head.weight"} if tied else set()
        return {
            name: tensor.detach().to("cpu", self.stored)
            for name, tensor in self.network.state_dict().items()
            if not name.startswith(f"{self.prefix}.") and name not in head
        }


@dataclass(frozen=True, slots=True)
class Call:
    """What one decoder layer was called with, beside the hidden states."""

    words: tuple[Any, ...]
    named: Mapping[str, Any]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def __call__(self, layer: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        """The layer's hidden states for these."""
        found = layer(hidden, *self.words, **self.named)
        out: torch.Tensor = found[0] if isinstance(found, tuple) else found
        return out

    def as_float32(self) -> Call:
        """The same with every floating tensor in float32."""
        return Call(_float32(self.words), _float32(dict(self.named)))


def open_model(model: Path, instead: str) -> Opened:
    """A dense decoder, on a GPU where there is one; a ModelError that says to serve it with `instead` otherwise."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # ours is the one
    config = AutoConfig.from_pretrained(model)
    on_gpu = torch.cuda.is_available()
    try:
        network = AutoModelForCausalLM.from_pretrained(model, dtype="auto" if on_gpu else torch.float32)
    except ValueError as error:  # transformers has no class that writes text for this configuration
        raise ModelError(
            f"{model} is a {config.model_type}, which transformers does not load; serve it with {instead}"
        ) from error
    network = network.to("cuda" if on_gpu else "cpu").eval()
    prefix, layers = _largest_stack(model, network)
    _is_dense(model, prefix, layers)
    _has_its_names(model, network, prefix, instead)
    return Opened(network, AutoTokenizer.from_pretrained(model), config.dtype or torch.float32, prefix, layers)


def linears(layer: torch.nn.Module) -> dict[str, torch.nn.Linear]:
    """The linear layers of a decoder layer by name."""
    return {name: part for name, part in layer.named_modules() if isinstance(part, torch.nn.Linear)}


@torch.no_grad()  # type: ignore[untyped-decorator]
def calls(opened: Opened, tokens: Sequence[int]) -> tuple[list[torch.Tensor], list[Call]]:
    """For each decoder layer its hidden states and what else it is called with, of one sample."""
    hidden: list[torch.Tensor] = []
    found: list[Call] = []

    def seen(_: torch.nn.Module, words: tuple[Any, ...], named: dict[str, Any]) -> None:
        rest = dict(named)
        first = words[0] if words else rest.pop("hidden_states")
        hidden.append(first.detach().clone())
        found.append(Call(words[1:], rest))

    with _hooked(opened.layers, seen):
        opened.network(torch.tensor([tokens], device=opened.network.device), use_cache=False)
    return hidden, found


@contextmanager
def _hooked(layers: torch.nn.ModuleList, seen: Any) -> Iterator[None]:  # noqa: ANN401  torch's own
    hooks = [layer.register_forward_pre_hook(seen, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _largest_stack(model: Path, network: torch.nn.Module) -> tuple[str, torch.nn.ModuleList]:
    """The decoder: the list of layers with the most parameters."""
    stacks = {
        name: part
        for name, part in network.named_modules()
        if isinstance(part, torch.nn.ModuleList) and any(linears(layer) for layer in part)
    }
    if not stacks:
        raise ModelError(f"{model} has no list of layers with linear layers; name another model")
    name = max(stacks, key=lambda name: sum(one.numel() for one in stacks[name].parameters()))
    return name, stacks[name]


def _is_dense(model: Path, prefix: str, layers: torch.nn.ModuleList) -> None:
    """Experts lie in tensors of three dimensions, which no linear layer reads."""
    stacked = (name for name, one in layers.named_parameters() if one.dim() == 3)
    if name := next(stacked, ""):
        raise ModelError(
            f"{model} is a mixture of experts ({prefix}.{name}), and samples make dense layers only; take fp8"
        )


def _has_its_names(model: Path, network: torch.nn.Module, prefix: str, instead: str) -> None:
    """The engine looks for the checkpoint's names, and transformers renames some while it loads."""
    stored: set[str] = set()
    for found in files.find(model, transformers_files):
        if found.path.suffix != ".safetensors":
            return
        with safe_open(found.path, framework="pt") as opened:
            stored |= set(opened.keys())
    ours = [name for name in network.state_dict() if name.startswith(f"{prefix}.")]
    if odd := next((name for name in ours if name not in stored), ""):
        raise ModelError(f"{model} names its layers otherwise than transformers ({odd}); serve it with {instead}")


def _float32(value: Any) -> Any:  # noqa: ANN401  whatever a layer is called with
    if isinstance(value, torch.Tensor):
        return value.float() if value.is_floating_point() else value
    if isinstance(value, tuple | list):
        return type(value)(_float32(one) for one in value)
    if isinstance(value, dict):
        return {name: _float32(one) for name, one in value.items()}
    return value
