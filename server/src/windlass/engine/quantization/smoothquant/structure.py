"""Finds the groups of a decoder layer by calling it: no architecture is known by its name.

Linear layers that get the same tensor share an input. What takes the smoothing in is tried out: a candidate stands when
the layer gives the same hidden states after random scales went into it and into the linear layers behind it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from windlass.engine.quantization.decoders import Call, linears
from windlass.engine.quantization.smoothquant.layers import Group, ScaleTarget, Tensors, smooth
from windlass.engine.quantization.smoothquant.search import Heads

SAME = 1e-3
"""The change of what a layer adds to its input, by its size, up to which it counts as none.

On tiny random models of six architectures right candidates change up to 6e-7, wrong ones 2e-2 and more.
"""
LEAST_SCALE, LARGEST_SCALE = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What an attention says of its heads: the size of one, and how many share a value."""

    head: int = 0  # 0: it does not say
    sharing: int = 1

    @classmethod
    def of(cls, layer: torch.nn.Module) -> Sizes:
        """By the names that transformers' attention classes have in common."""
        for part in layer.modules():
            if isinstance(head := getattr(part, "head_dim", None), int):
                return cls(head, int(getattr(part, "num_key_value_groups", 1)))
        return cls()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What went through a layer: inputs of linear layers in their order, outputs of norms."""

    inputs: dict[str, torch.Tensor]
    norms: dict[str, torch.Tensor]


def groups(layer: torch.nn.Module, call: Call, hidden: torch.Tensor) -> tuple[Group, ...]:
    """Every linear layer in one group; `call` and `hidden` are what the model gave this layer."""
    trial, sizes = copy.deepcopy(layer).float(), Sizes.of(layer)
    call, hidden = call.as_float32(), hidden.float()
    seen, exact = _watched(trial, call, hidden)
    found = []
    for shared in _sharing(seen.inputs):
        group = Group(shared)
        tries = (
            one for one in _candidates(trial, seen, group, sizes) if change(trial, call, hidden, exact, one) < SAME
        )
        found.append(next(tries, group))
    return tuple(found)


def _watched(layer: torch.nn.Module, call: Call, hidden: torch.Tensor) -> tuple[_Seen, torch.Tensor]:
    seen = _Seen({}, {})

    def reads(name: str) -> Any:  # noqa: ANN401  torch's own
        return lambda _, words: seen.inputs.__setitem__(name, words[0])

    def gives(name: str) -> Any:  # noqa: ANN401  torch's own
        return lambda _, words, out: seen.norms.__setitem__(name, out)

    named = linears(layer)
    hooks = [part.register_forward_pre_hook(reads(name)) for name, part in named.items()]
    hooks += [
        part.register_forward_hook(gives(name))
        for name, part in layer.named_modules()
        if name not in named and isinstance(weight := getattr(part, "weight", None), torch.Tensor) and weight.dim() == 1
    ]
    out = call(layer, hidden)
    for hook in hooks:
        hook.remove()
    return seen, out


def _sharing(inputs: Mapping[str, torch.Tensor]) -> list[tuple[str, ...]]:
    """Names by the memory that they read; all tensors are still held, so that no memory was used twice."""
    found: dict[tuple[int, int], list[str]] = {}
    for name, tensor in inputs.items():
        found.setdefault((tensor.data_ptr(), tensor.numel()), []).append(name)
    return [tuple(names) for names in found.values()]


def _candidates(layer: torch.nn.Module, seen: _Seen, group: Group, sizes: Sizes) -> Iterator[Group]:
    """The norm whose output this is, then rows of the linear layers before, the nearest first."""
    read = seen.inputs[group.layers[0]]
    for name, out in seen.norms.items():
        if out.data_ptr() == read.data_ptr() and out.numel() == read.numel():
            yield replace(group, before=name, takes=ScaleTarget.NORM)
            yield replace(group, before=name, takes=ScaleTarget.NORM_OVER_ONE)
    order = list(seen.inputs)
    named = linears(layer)
    inputs = read.shape[-1]
    for name in reversed(order[: order.index(group.layers[0])]):
        for start, end in _cuts(named[name].out_features, inputs // sizes.sharing):
            sharing, rest = divmod(inputs, end - start)
            shared = sharing == sizes.sharing and sizes.head and (end - start) % sizes.head == 0
            if rest == 0 and (sharing == 1 or shared):
                heads = Heads(sharing, sizes.head) if sharing > 1 else None
                yield replace(group, before=name, takes=ScaleTarget.ROWS, rows=(start, end), heads=heads)


def _cuts(rows: int, values: int) -> Iterator[tuple[int, int]]:
    """All rows; of a fused projection the values at its end, or one half."""
    yield 0, rows
    if rows > values:
        yield rows - values, rows
    if rows % 2 == 0:
        yield rows // 2, rows
        yield 0, rows // 2


def change(layer: torch.nn.Module, call: Call, hidden: torch.Tensor, exact: torch.Tensor, group: Group) -> float:
    """How far the layer is from what it gave, by what it adds to its input, after random scales went in."""
    draw = torch.Generator().manual_seed(0)
    inputs = linears(layer)[group.layers[0]].in_features
    scales = torch.empty(inputs).uniform_(LEAST_SCALE, LARGEST_SCALE, generator=draw).to(hidden.device)
    if group.heads:
        scales = group.heads.largest(scales)
    changed = {name: tensor.clone() for name, tensor in _touched(layer, group).items()}
    smooth(changed, group, scales)
    out = torch.func.functional_call(
        _Called(layer, call), {f"layer.{name}": one for name, one in changed.items()}, hidden
    )
    added = (exact - hidden).norm().clamp_min(1e-12)
    return float((out - exact).norm() / added)


def _touched(layer: torch.nn.Module, group: Group) -> Tensors:
    names = {*group.layers, group.before}
    return {name: one.detach() for name, one in layer.named_parameters() if name.rpartition(".")[0] in names}


class _Called(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A layer with what it is called with, as torch.func wants it."""

    def __init__(self, layer: torch.nn.Module, call: Call) -> None:
        super().__init__()
        self.layer, self._call = layer, call

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The layer's hidden states."""
        return self._call(self.layer, hidden)
