"""What goes through a model's linear layers while it reads samples: largest magnitudes, and some tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from windlass.engine.quantization.smoothquant.layers import Group

TOKENS_KEPT = 512
"""Tokens of all samples together that a search compares; the largest magnitudes are of every token."""
State = dict[str, torch.Tensor]


class Watch:
    """Collects while it watches: `LAYER GROUP largest` [inputs] and `LAYER GROUP inputs` [tokens, inputs]."""

    def __init__(
        self, layers: Sequence[torch.nn.Module], groups: Sequence[Sequence[Group]], samples: int, state: State
    ) -> None:
        self._layers, self._groups = layers, groups
        self._each = -(-TOKENS_KEPT // samples)
        self.state = state

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hooks are there within."""
        hooks = [
            layer.get_submodule(group.layers[0]).register_forward_pre_hook(self._hook(f"{number} {group.name}"))
            for number, (layer, groups) in enumerate(zip(self._layers, self._groups, strict=True))
            for group in groups
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _hook(self, key: str) -> Any:  # noqa: ANN401  torch's own
        def seen(_: torch.nn.Module, words: tuple[torch.Tensor, ...]) -> None:
            rows = words[0].detach().flatten(0, -2).float().cpu()
            largest = rows.abs().amax(0)
            before = self.state.get(f"{key} largest")
            self.state[f"{key} largest"] = largest if before is None else torch.maximum(before, largest)
            step = max(1, len(rows) // self._each)
            kept = rows[step // 2 :: step][: self._each]
            inputs = self.state.get(f"{key} inputs")
            self.state[f"{key} inputs"] = (kept if inputs is None else torch.cat((inputs, kept)))[:TOKENS_KEPT].clone()

        return seen
